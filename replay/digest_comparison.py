"""Rebuilt tables compared with those in use, by the digests of all rows."""

from __future__ import annotations

from pathlib import Path

import apsw

from engramlog.eventlog.log import EventLog
from engramlog.projections.tables.database import open_reader
from engramlog.projections.tables.digest import TableDigests, digest_tables
from engramlog.projections.tables.file_state import file_state, known_versions
from engramlog.projections.tables.store import current_generation


class DigestMismatch(Exception):
    """Green differs from blue although the projectors are the same; blue stays in use."""

    def __init__(self, blue: TableDigests, green: TableDigests) -> None:
        tables = sorted(name for name in blue.tables if blue.tables[name] != green.tables.get(name))
        super().__init__(f"rebuilt tables differ from those in use: {', '.join(tables)}")
        self.blue = blue
        self.green = green
        self.tables = tables


def _is_of(blue: apsw.Connection, log: EventLog) -> bool:
    """Whether blue was made from this log: the last event it applied is there."""
    state = file_state(blue)
    if not state.hash:
        return False
    found = log.read(state.position - 1, 1)
    return bool(found) and found[0].position == state.position and found[0].hash == state.hash


def compare_in_use(link: Path, log: EventLog, green: TableDigests) -> bool:
    """Whether green could be compared with the file in use. Raises as ``compare_with``."""
    path = current_generation(link)
    if path is None:
        return False
    blue = open_reader(path)
    try:
        return _is_of(blue, log) and compare_with(blue, green)
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, apsw.IOError):
        return False  # nothing can be said of a file that cannot be read
    finally:
        blue.close()


def compare_with(blue: apsw.Connection, green: TableDigests) -> bool:
    """Whether blue could be compared. Raises DigestMismatch if it differs."""
    state = file_state(blue)
    if state.halted or state.versions != known_versions():
        return False
    digests = digest_tables(blue)
    if digests.position != green.position:
        return False
    if digests.local != green.local:
        raise DigestMismatch(digests, green)
    return True
