"""The page on adding an event kind is followed, step by step, in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from tests.worlds.documented_console import ROOT

PAGE = ROOT / "docs" / "add-an-event-kind.md"
_STEP = re.compile(r"^## \d+\. .*?: `([^`]+)`$", re.MULTILINE)
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_BEHIND = (".git", ".venv", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "build")
HELD_BY = (
    "tests/eventlog/test_fixtures.py",
    "tests/docs/test_coverage.py",
    "tests/api/transfer/test_portability.py::test_of_every_kind_it_is_known_what_becomes_of_it",
)

ABOUT_IT = "pin_set or pins or has_a_fixture or what_becomes_of_it"


class Step(Struct, frozen=True):
    """What becomes of one file: its fences, as (language, text)."""

    path: str
    fences: list[tuple[str, str]]


def steps_of(page: str) -> tuple[list[Step], str]:
    """The numbered steps, and the program that shows that it works."""
    body, shown = page.split("\n## That is all\n")
    parts = _STEP.split(body)[1:]
    steps = [
        Step(path, _FENCE.findall(text)) for path, text in zip(parts[::2], parts[1::2], strict=True)
    ]
    (program,) = (text for language, text in _FENCE.findall(shown) if language == "python")
    return steps, program


def changed(text: str, diff: str) -> str:
    """A file with a diff applied: what it leaves standing must be there, once."""
    lines = [(line[:1], line[1:]) for line in diff.splitlines(keepends=True)]
    before = "".join(line for mark, line in lines if mark != "+")
    assert text.count(before) == 1, before
    return text.replace(before, "".join(line for mark, line in lines if mark != "-"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository, its symbolic links as links."""
    target = tmp_path / "copy"
    shutil.copytree(ROOT, target, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    return target


def follow(step: Step, copy: Path) -> None:
    """Do what a step says."""
    file = copy / step.path
    for language, text in step.fences:
        if language == "diff":
            file.write_text(changed(file.read_text(), text))
        elif language == "sh":
            run(copy, "/bin/sh", "-c", text.replace("python ", f"{sys.executable} ", 1))
        else:
            assert not file.exists(), step.path
            file.write_text(text)


def run(copy: Path, *command: str) -> None:
    """A program that sees the copy and no other checkout."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_kind_is_added_with_at_most_five_files(copy: Path) -> None:
    steps, program = steps_of(PAGE.read_text())
    for step in steps:
        follow(step, copy)
    assert len({step.path for step in steps}) == len(steps) <= 5
    (copy / "shown.py").write_text(program)
    run(copy, sys.executable, "shown.py")
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", ABOUT_IT)
    run(copy, sys.executable, *tests, *HELD_BY)
