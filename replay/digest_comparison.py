"""Compares rebuilt tables with those in use, by the digests of all rows."""

from pathlib import Path

import apsw

from engramlog.eventlog.log import EventLog, holds_event
from engramlog.projections.tables.database import open_reader
from engramlog.projections.tables.digest import TableDigests, digest_tables
from engramlog.projections.tables.file_state import file_state, known_versions
from engramlog.projections.tables.store import current_generation


class DigestMismatch(Exception):
    """Green differs from blue although the projectors are the same; blue stays in use."""

    def __init__(self, blue: TableDigests, green: TableDigests) -> None:
        tables = sorted(name for name in blue.tables if blue.tables[name] != green.tables.get(name))
        super().__init__(
            f"rebuilt tables differ from those in use: {', '.join(tables)}. If 'engramlog replay "
            "verify' finds no fault, those in use are wrong: stop the node, remove projections.db "
            "from its directory, and start it"
        )
        self.tables = tables


def _belongs_to_log(blue: apsw.Connection, log: EventLog) -> bool:
    """Whether blue was made from this log: the log has the last event it applied."""
    state = file_state(blue)
    return holds_event(log, state.position, state.hash)


def compare_in_use(link: Path, log: EventLog, green: TableDigests) -> bool:
    """Compare green with the file in use; False if impossible. Raises as ``compare_with``."""
    path = current_generation(link)
    if path is None:
        return False
    blue = open_reader(path)
    try:
        return _belongs_to_log(blue, log) and compare_with(blue, green)
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, apsw.IOError):
        return False  # an unreadable file cannot be compared
    finally:
        blue.close()


def compare_with(blue: apsw.Connection, green: TableDigests) -> bool:
    """Compare green with blue; False if impossible. Raises DigestMismatch if they differ."""
    state = file_state(blue)
    if state.halted or state.versions != known_versions():
        return False
    digests = digest_tables(blue)
    if digests.position != green.position:
        return False
    if digests.local != green.local:
        raise DigestMismatch(digests, green)
    return True
