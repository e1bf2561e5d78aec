"""``engramlog`` that counts its Python calls and SQL statements, equal on every machine.

Runs as a module in the command line's place; SIGUSR1 writes the counts so far to ``COUNTS``, in the
directory ``ENGRAMLOG_COUNTS``. Threads of the embedding are not counted: how many documents they
take at a time depends on the clock.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from engramlog.api.cli.main import main

FOLDER = "ENGRAMLOG_COUNTS"
COUNTS = "counts.json"
SECONDS_MAX = 10.0
_LEFT_OUT = "embedding"
_FILES_LEFT_OUT = ("embedding", "vectors")
_ahead = {"calls": count(), "statements": count()}


class Counts(Struct, frozen=True):
    """Counts since the process began."""

    calls: int
    statements: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.calls - other.calls, self.statements - other.statements)


def counts_of(pid: int, folder: Path) -> Counts:
    """The counts of the process so far."""
    path = folder / COUNTS
    path.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + SECONDS_MAX
    while not path.exists():
        assert time.monotonic() < deadline, "the node does not report its counts"
        time.sleep(0.005)
    return msgspec.json.decode(path.read_bytes(), type=Counts)


def _profile(_: FrameType, event: str, __: Any) -> None:
    if event == "call":
        next(_ahead["calls"])


def _start(frame: FrameType, event: str, argument: Any) -> None:
    """The first event of a new thread decides whether it is counted."""
    left_out = threading.current_thread().name.startswith(_LEFT_OUT)
    sys.setprofile(None if left_out else _profile)
    if not left_out:
        _profile(frame, event, argument)


def _statement(_: dict[str, Any]) -> None:
    next(_ahead["statements"])


def _watch(db: apsw.Connection) -> None:
    if not Path(db.filename).name.startswith(_FILES_LEFT_OUT):
        db.trace_v2(apsw.SQLITE_TRACE_STMT, _statement)  # pyright: ignore[reportUnknownMemberType]


def _tell(*_: object) -> None:
    # a counter is read by copying it: ``count(5)`` reduces to its class and 5
    told = {name: ahead.__reduce__()[1][0] for name, ahead in _ahead.items()}
    aside = Path(os.environ[FOLDER]) / f"{COUNTS}.new"
    aside.write_bytes(msgspec.json.encode(told))
    aside.replace(aside.with_name(COUNTS))


if __name__ == "__main__":
    apsw.connection_hooks.append(_watch)
    signal.signal(signal.SIGUSR1, _tell)
    threading.setprofile(_start)
    sys.setprofile(_profile)
    code = main()
    sys.setprofile(None)  # the interpreter's end takes this module's names away
    sys.exit(code)
