"""Rebuilt tables compared with those in use, by the digests of all rows."""

from __future__ import annotations

from pathlib import Path

import apsw

from eventlog.log import EventLog
from projections.database import open_reader, query
from projections.digest import Digests, compute_digests
from projections.registry import PROJECTORS
from projections.store import current_generation


class DigestMismatch(Exception):
    """Green differs from blue although the projectors are the same; blue stays in use."""

    def __init__(self, blue: Digests, green: Digests) -> None:
        tables = sorted(name for name in blue.tables if blue.tables[name] != green.tables.get(name))
        super().__init__(f"rebuilt tables differ from those in use: {', '.join(tables)}")
        self.blue = blue
        self.green = green
        self.tables = tables


def _is_of(blue: apsw.Connection, log: EventLog) -> bool:
    """Whether blue was made from this log: the last event it applied is there."""
    mark = query(blue, "SELECT position, hash FROM log_mark")
    if not mark:
        return False
    position, event_hash = mark[0]
    found = log.read(position - 1, 1)
    return bool(found) and found[0].position == position and found[0].hash == event_hash


def compare_in_use(link: Path, log: EventLog, green: Digests) -> bool:
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


def compare_with(blue: apsw.Connection, green: Digests) -> bool:
    """Whether blue could be compared. Raises DigestMismatch where it differs."""
    versions = query(blue, "SELECT projector, version, halted FROM checkpoints")
    made = {name: (version, halted) for name, version, halted in versions}
    if made != {projector.name: (projector.version, None) for projector in PROJECTORS}:
        return False
    digests = compute_digests(blue)
    if digests.position != green.position:
        return False
    if digests.local != green.local:
        raise DigestMismatch(digests, green)
    return True
