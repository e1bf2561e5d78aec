"""The project's own source files and their imports."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ROOMS = ("eventlog", "projections", "replay", "api")
"""From the ground up: each may import from itself and from those before it."""
PACKAGE = "engramlog"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def _name_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """The package's modules by the name under which they are imported."""
    rooms = {
        f"{PACKAGE}.{_name_of(path)}": path
        for room in ROOMS
        for path in sorted((REPOSITORY / room).rglob("*.py"))
    }
    return {_name_of(path): path for path in (REPOSITORY / PACKAGE).glob("*.py")} | rooms


@cache
def outside_the_package() -> Mapping[str, Path]:
    """Tests and benchmarks."""
    return {
        _name_of(path): path
        for folder in ("tests", "benchmarks")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
    }


@cache
def imports_of(path: Path) -> tuple[tuple[str, str | None], ...]:
    """``imported_names`` of a file, which several tests look through."""
    return tuple(imported_names(tree_of(path)))


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Every import of a file, at any place: a module, and a name from it or None. A relative import
    keeps its leading dots."""
    found: list[ast.AST] = [*tree.body]
    for node in found:  # statements alone: expressions are most of a tree, and hold no import
        if isinstance(node, ast.Import):
            yield from ((each.name, None) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, each.name) for each in node.names)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, part, ())
            found += inside if isinstance(inside, list) else ()


@cache
def arrows() -> Mapping[str, frozenset[str]]:
    """Which modules of the package each module imports; imports in functions count as well."""
    known = modules()

    def targets(path: Path) -> Iterator[str]:
        for module, name in imports_of(path):
            submodule = f"{module}.{name}"
            yield submodule if submodule in known else module

    return {
        name: frozenset(each for each in targets(path) if each in known and each != name)
        for name, path in known.items()
    }


def circles() -> list[frozenset[str]]:
    """Groups of modules that import one another (strongly connected components, by Tarjan)."""
    graph = arrows()
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for target in sorted(graph[module]):
            if target not in order:
                visit(target)
            if target in path:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == order[module]:
            start = path.index(module)
            group = frozenset(path[start:])
            del path[start:]
            if len(group) > 1:
                found.append(group)

    for module in graph:
        if module not in order:
            visit(module)
    return found


def room_of(module: str) -> str | None:
    """The room of one of the package's modules; None for the door and the command."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else None
