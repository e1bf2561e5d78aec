"""Follows the pages on adding things, step by step, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from tests.worlds.documented_console import ROOT

_STEP = re.compile(r"^## \d+\. .*?: `([^`]+)`$", re.MULTILINE)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_BEHIND = (
    ".git", ".venv", "*.egg-info", ".*_cache", ".hypothesis", "build",
    "node_modules", "dist",
)  # fmt: skip
FILES_MAX = {"add-an-event-kind": 5, "add-a-recall-stage": 3, "add-a-route": 5}
CHECKS = (
    "tests/eventlog/test_fixtures.py",
    "tests/docs/test_coverage.py",
    "tests/api/transfer/test_portability.py::test_every_kind_of_event_travels_or_is_counted",
    "tests/api/node/test_node.py::test_every_file_of_routes_is_in_the_table",
    "tests/api/rights/test_capabilities.py::test_a_capability_opens_these_routes_alone",
    "tests/api/privacy/test_no_leak.py::test_every_read_route_is_tested",
)
ABOUT_THEM = (
    "pin_set or pins or newest or sources or "
    "has_a_fixture or travels_or_is_counted or in_the_table or routes_alone or route_is_tested"
)


class Step(Struct, frozen=True):
    """The changes of one file: its fences, as (language, text)."""

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
    """A file with a diff applied: its unmarked lines must be there, once."""
    lines = [(line[:1], line[1:]) for line in diff.splitlines(keepends=True)]
    before = "".join(line for mark, line in lines if mark != "+")
    assert text.count(before) == 1, before
    return text.replace(before, "".join(line for mark, line in lines if mark != "-"))


def follow(step: Step, copy: Path) -> None:
    """Apply a step."""
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


def test_the_pages_additions_work_and_pass_the_checks(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    for page, files_max in FILES_MAX.items():
        steps, program = steps_of((ROOT / "docs" / f"{page}.md").read_text())
        for step in steps:
            follow(step, copy)
        assert len({step.path for step in steps}) == len(steps) <= files_max
        (copy / f"{page}.py").write_text(program)
    for page in FILES_MAX:
        run(copy, sys.executable, f"{page}.py")
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", ABOUT_THEM)
    run(copy, sys.executable, *tests, *CHECKS)
