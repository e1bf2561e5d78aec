"""Lives that end by ``kill -9`` at a given point: each in a separate process, forked from one that
has loaded the modules."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from tests.worlds.processes import ROOT, environment

SECONDS_MAX = 240.0

Life = Callable[[Path, str], None]
"""A function of a folder and the point at which to ``die``."""


def die(*_: object, **__: object) -> NoReturn:
    """End this process like a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def lived(life: Life, points: Mapping[Path, str]) -> None:
    """Run one life in each folder, up to its point, or fail."""
    told = json.dumps({str(folder): point for folder, point in points.items()})
    command = [sys.executable, "-m", "tests.worlds.dying_lives", life.__module__, life.__name__]
    done = subprocess.run(
        [*command, told],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr


def main(module: str, name: str, told: str) -> None:
    """Fork a process for each life, one after the other."""
    life: Life = getattr(import_module(module), name)
    for folder, point in json.loads(told).items():
        pid = os.fork()
        if pid == 0:
            life(Path(folder), point)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        ended = os.waitstatus_to_exitcode(status)
        if ended != -signal.SIGKILL:
            raise SystemExit(f"{point}: it ended with {ended}")


if __name__ == "__main__":
    main(*sys.argv[1:])
