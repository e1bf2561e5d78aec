"""A command that is killed midway: ``python -m tests.worlds.killed_inside STEP ARGUMENT…``.

Every change to a file is a step: creating, linking, renaming and removing files, writes and syncs
of databases, syncs of files. SIGKILL ends the process before the numbered step. A command that
reaches its end prints its number of steps on standard error.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from tests.worlds.processes import COMMAND_SECONDS_MAX, ROOT, environment

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR
_TAKEN = re.compile(r"^steps (\d+)$", re.MULTILINE)


class _Steps:
    def __init__(self, last: int) -> None:
        self.taken = 0
        self._last = last

    def take(self) -> None:
        self.taken += 1
        if self.taken == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _CHANGES or (event == "open" and args[2] & _WRITING):
            self.take()


class _CountingVfs(apsw.VFS):
    def __init__(self, steps: _Steps) -> None:
        super().__init__("counting", "unix", makedefault=True)
        self._steps = steps

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _CountingFile(name, flags, self._steps)

    def xFullPathname(self, name: str) -> str:
        return str(Path(name).resolve())  # the tables are behind a link

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._steps.take()
        with suppress(apsw.IOError):  # it is gone already
            super().xDelete(filename, syncdir)


class _CountingFile(apsw.VFSFile):
    def __init__(
        self, name: str | apsw.URIFilename | None, flags: list[int], steps: _Steps
    ) -> None:
        super().__init__("unix", name, flags)
        self._steps = steps

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError as fault:
            # The last reader to close asks for more than its descriptor allows; SQLite continues.
            raise apsw.BusyError("no such lock for a reader") from fault

    def xWrite(self, data: Buffer, offset: int) -> None:
        self._steps.take()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._steps.take()
        super().xSync(flags)


def run(step: int, *args: str | Path) -> tuple[int, int]:
    """Run a command and kill it at a step (0: never): its exit code, and its number of steps; 0 if
    it was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.worlds.killed_inside", str(step), *map(str, args)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=ROOT,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    found = _TAKEN.search(done.stderr)
    return done.returncode, 0 if found is None else int(found[1])


def main() -> int:
    from engramlog.api.cli.main import main as command

    steps = _Steps(int(sys.argv[1]))
    sync = os.fsync

    def counted(descriptor: int) -> None:
        steps.take()
        sync(descriptor)

    os.fsync = counted  # type: ignore[assignment]
    vfs = _CountingVfs(steps)
    sys.addaudithook(steps.hear)
    try:
        return command(sys.argv[2:])
    finally:
        print(f"steps {steps.taken}", file=sys.stderr)
        del vfs


if __name__ == "__main__":
    sys.exit(main())
