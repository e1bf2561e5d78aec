"""The two walks of ``docs/architecture.md`` are those that a node really takes."""

import ast
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from tests.worlds.documented_console import ROOT
from tests.worlds.live import LiveNode

PAGE = (ROOT / "docs/architecture.md").read_text()
_ROW = re.compile(r"\| (\d+) \| `([\w/]+\.py)` \| `(\w+)` \| (\d*) ?\|")
LONGEST = {"One write, from route to fsync": 12, "One question, from route to packed list": 15}


class Step(NamedTuple):
    """One row: ``function`` of ``file``, called from the row of that number."""

    number: int
    file: str
    function: str
    caller: int | None


def walk(title: str) -> list[Step]:
    """The steps under a heading."""
    (text,) = re.findall(rf"^## {title}$(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    return [
        Step(int(number), file, function, int(caller) if caller else None)
        for number, file, function, caller in _ROW.findall(text)
    ]


@pytest.mark.parametrize("title", LONGEST)
def test_a_walk_is_short_and_passes_a_file_once(title: str) -> None:
    steps = walk(title)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert 8 <= len(steps) <= LONGEST[title]
    assert len({step.file for step in steps}) == len(steps)


@pytest.mark.parametrize("title", LONGEST)
def test_each_step_exists_and_the_step_before_uses_it(title: str) -> None:
    steps = walk(title)
    for step in steps:
        tree = ast.parse((ROOT / step.file).read_text())
        assert step.function in set(_defined(tree)), step
        if step.number > 1:
            assert step.caller is not None
            assert step.caller < step.number
            above = (ROOT / steps[step.caller - 1].file).read_text()
            assert _uses(ast.parse(above), step), step


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def _uses(tree: ast.Module, step: Step) -> bool:
    """Whether the file uses the function, or a table of the function's file or folder."""
    module = "engramlog." + step.file.removesuffix(".py").replace("/", ".")
    homes = {module, module.rpartition(".")[0]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == step.function:
            return True
        if isinstance(node, ast.Name) and node.id == step.function:
            return True
        if isinstance(node, ast.ImportFrom) and node.module in homes:
            return True
    return False


class Passed:
    """Our functions in the order in which the threads' profiles first met them."""

    def __init__(self) -> None:
        self.met: list[tuple[str, str]] = []
        self.noting = False

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function."""
        if not self.noting or event != "call":
            return
        file = Path(frame.f_code.co_filename)
        for room in ("api", "replay", "projections", "eventlog"):
            if room in file.parts:
                place = "/".join(file.parts[file.parts.index(room) :])
                self.met.append((place, frame.f_code.co_name))
                return


def test_a_node_takes_these_walks(tmp_path: Path) -> None:
    passed = Passed()
    threading.setprofile(passed.note)  # for every thread that begins from here on
    live = LiveNode(tmp_path / "node")
    try:
        live.state(v="the first, so that nothing is made for the first time")
        asked = (
            ("/v1/facts", fact(), "One write, from route to fsync"),
            ("/v1/recall", {"query": "tea"}, "One question, from route to packed list"),
        )
        for path, body, title in asked:
            passed.met.clear()
            passed.noting = True
            assert live.call("POST", path, json=body).status_code in (200, 201)
            passed.noting = False
            steps = [(step.file, step.function) for step in walk(title)]
            assert [step for step in steps if step not in passed.met] == []
            first = [passed.met.index(step) for step in steps]
            assert first == sorted(first), list(zip(steps, first, strict=True))
    finally:
        threading.setprofile(None)
        live.close()


def fact() -> dict[str, Any]:
    """A request that states something new."""
    return {
        "entity": "user:ann",
        "relation": "memory:drink",
        "value": {"type": "string", "v": "tea"},
        "source": "agent:tester",
        "confidence": 0.9,
        "scope": "local",
    }
