"""Running the ``console`` blocks of a page as a reader would, in order, in one folder."""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from msgspec import Struct

from tests.worlds.warm import shim

ROOT = Path(__file__).resolve().parents[2]
STEP_SECONDS_MAX = 240

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)

_PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


class Step(Struct, frozen=True):
    """One command and the output in the page; ``...`` matches anything."""

    command: str
    promised: str


def steps_of(page: Path) -> list[Step]:
    """The steps of all console blocks of a page."""
    steps: list[Step] = []
    for block in _BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, promised = part.partition("\n")
            steps.append(Step(command, promised.strip()))
    return steps


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """The Python blocks of a page, each with the ``text`` block right below it: its output."""
    return _PYTHON.findall(page.read_text())


@cache
def _commands() -> Path:
    """A folder with an ``engramlog`` for shells."""
    folder = Path(tempfile.mkdtemp(prefix="engramlog-docs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return shim(folder).parent


def run(step: Step, folder: Path, variables: dict[str, str]) -> str:
    """The command's output. ``NODE=…`` lines set entries that exist in ``variables``."""
    if step.command.startswith("NODE="):
        return ""
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{_commands()}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-ceu", "-o", "pipefail", step.command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{step.command}\n{done.stdout}{done.stderr}"
    return done.stdout


def keeps(promised: str, printed: str) -> bool:
    """Whether the output has the promised parts, in order."""
    parts = [part.strip() for part in re.split(r"\.\.\.", promised)]
    place = 0
    for part in parts:
        for line in filter(None, part.split("\n")):
            found = printed.find(line.strip(), place)
            if found < 0:
                return False
            place = found + len(line.strip())
    return True
