"""The floors of the house, read from the imports.

``eventlog`` <- ``projections`` <- ``replay`` <- ``api``, and ``engramlog`` as the door on top:
imports go down only and never in a circle, inside a room neither. What is listed here as known is
to be mended; the lists only get shorter.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds import source_tree
from tests.worlds.source_tree import PACKAGE, REPOSITORY, ROOMS, room_of, tree_of

FOLDERS_OF_PROJECTIONS = (
    "text", "rights", "memories", "columns", "tables", "image", "contradictions", "episodes",
    "summaries", "graph", "embedding", "cards", "recall", "archive", "audit", "writing",
)  # fmt: skip
"""From the ground up; the modules beside them lie below."""

HTTP_LIBRARIES = {
    "aiohttp", "http", "httpx", "mcp", "requests", "socket", "ssl", "starlette", "urllib.request",
    "uvicorn",
}  # fmt: skip
HTTP_BELOW_API = {
    # Vectors are made where they are kept, and some providers of them are reached over HTTP.
    f"{PACKAGE}.projections.http_exchange",
}

DATABASES = {"apsw", "duckdb", "psycopg", "sqlite3", "sqlite_vec"}
STATEMENT = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE FROM|CREATE (TABLE|INDEX|VIEW)|DROP|PRAGMA|VACUUM|BEGIN"
    r"|COMMIT|ROLLBACK|ATTACH)\b"
)

FILES_MAX = 18


def _short(module: str) -> str:
    return ".".join(module.split(".")[2:])


def _every_file() -> dict[str, Path]:
    return {**source_tree.modules(), **source_tree.outside_the_package()}


def test_imports_go_down_only() -> None:
    upward = [
        f"{module} imports {target}"
        for module, targets in source_tree.arrows().items()
        for target in targets
        if _floor(target) > _floor(module)
    ]
    assert upward == []


def _floor(module: str) -> int:
    room = room_of(module)
    return len(ROOMS) if room is None else ROOMS.index(room)


def test_no_modules_import_one_another() -> None:
    assert [sorted(map(_short, circle)) for circle in source_tree.circles()] == []


def test_the_folders_of_projections_import_downwards() -> None:
    upward = [
        f"{module} imports {target}"
        for module, targets in source_tree.arrows().items()
        for target in targets
        if room_of(module) == room_of(target) == "projections" and _storey(target) > _storey(module)
    ]
    assert upward == []


def _storey(module: str) -> int:
    """0 for a module beside the folders, and for the room itself."""
    folder = module.split(".")[2:3]
    beside = module.count(".") == 2 and source_tree.modules()[module].name != "__init__.py"
    return 0 if beside or not folder else 1 + FOLDERS_OF_PROJECTIONS.index(folder[0])


def test_the_rooms_are_imported_by_one_name() -> None:
    bare = [
        f"{name} imports {module}"
        for name, path in _every_file().items()
        for module, _ in source_tree.imports_of(path)
        if module.split(".")[0] in ROOMS or module.startswith(".")
    ]
    assert bare == []


def test_the_links_lead_to_the_rooms() -> None:
    for room in ROOMS:
        link = REPOSITORY / PACKAGE / room
        assert link.is_symlink(), room
        assert link.resolve() == REPOSITORY / room


def test_no_test_module_is_imported() -> None:
    """What two of them need is in ``tests/worlds``."""
    tests = {
        name
        for name in source_tree.outside_the_package()
        if name.split(".")[-1].startswith("test_")
    }
    found = [
        f"{name} imports {each}"
        for name, path in _every_file().items()
        for module, imported in source_tree.imports_of(path)
        for each in (module, f"{module}.{imported}")
        if each in tests
    ]
    assert found == []


def test_no_test_looks_at_a_clock() -> None:
    """How long something took depends on the machine and its load: benchmarks measure it."""
    clocks = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
    looking = {
        name
        for name, path in source_tree.outside_the_package().items()
        if name.startswith("tests.") and not name.startswith(("tests.worlds.", "tests.campaign."))
        if any(clock in path.read_text("utf-8") for clock in clocks)
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Attribute) and node.attr in clocks)
        or (isinstance(node, ast.Name) and node.id in clocks)
    }
    assert looking == set()


def _libraries(path: Path) -> Iterator[str]:
    """What a file imports, by every prefix of its name."""
    for module, name in source_tree.imports_of(path):
        parts = [*module.split("."), *([name] if name else [])]
        yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def test_http_is_spoken_in_api_alone() -> None:
    found = {
        name
        for name, path in source_tree.modules().items()
        if room_of(name) in ROOMS[:3] and HTTP_LIBRARIES & set(_libraries(path))
    }
    assert found == HTTP_BELOW_API


def test_sql_is_written_in_the_two_lower_rooms_alone() -> None:
    above = {
        name: path for name, path in source_tree.modules().items() if room_of(name) in ROOMS[2:]
    }
    assert [name for name, path in above.items() if list(_statements(path))] == []
    assert [
        name
        for name, path in above.items()
        if room_of(name) == "api" and DATABASES & set(_libraries(path))
    ] == []


def _statements(path: Path) -> Iterator[str]:
    tree = tree_of(path)
    explained = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in explained
            and STATEMENT.match(node.value)
        ):
            yield node.value


def test_a_folder_holds_few_modules() -> None:
    counts = Counter(
        str(path.parent.relative_to(REPOSITORY))
        for path in source_tree.modules().values()
        if path.name != "__init__.py"
    )
    wide = {folder for folder, count in counts.items() if count > FILES_MAX}
    assert wide == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import api", "api"),
        ("from projections.moment import Moment", "projections"),
        ("def f() -> None:\n    from replay import fork", "replay"),
    ],
)
def test_bare_imports_are_recognised_wherever_they_stand(text: str, found: str) -> None:
    ((module, _),) = source_tree.imported_names(ast.parse(text))
    assert module.split(".")[0] == found
    assert found in ROOMS
