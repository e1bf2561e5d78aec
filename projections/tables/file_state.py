"""The state of a file of tables: its projectors and its last event."""

from collections.abc import Mapping

import apsw
from msgspec import Struct

from engramlog.eventlog.codec import is_later
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.registry import KNOWN_KINDS, PROJECTORS


class FileState(Struct, frozen=True):
    """``hash``: that of the event at ``position``, the last one applied (empty before the first).
    ``versions``: by projector. ``halted``: projectors that are behind, with the reason."""

    position: int
    hash: bytes
    versions: dict[str, int]
    halted: dict[str, str]


def file_state(db: apsw.Connection) -> FileState:
    """The state of an open file. Raises apsw.Error for a file without tables."""
    marks = query(db, "SELECT projector, version, position, halted FROM checkpoints")
    mark = query_one(db, "SELECT position, hash FROM log_mark")
    position, event_hash = (0, b"") if mark is None else mark
    halted = {name: why for name, _, _, why in marks if why is not None}
    behind = {
        name: f"it is at position {at}" for name, _, at, _ in marks if at != position
    }  # all reads must see one position
    return FileState(
        position,
        event_hash,
        {name: version for name, version, _, _ in marks},
        {**behind, **halted},
    )


def known_versions() -> dict[str, int]:
    """The versions of this release's projectors, by name."""
    return {projector.name: projector.version for projector in PROJECTORS}


def other_versions(made: Mapping[str, int]) -> list[str]:
    """Projectors whose rows another version made, and projectors that are new or removed."""
    wanted = known_versions()
    return sorted(
        name for name in made.keys() | wanted.keys() if made.get(name) != wanted.get(name)
    )


def newly_known(db: apsw.Connection) -> str | None:
    """Says which events the release that made a file ignored, and this one knows; None if none."""
    rows = query(db, "SELECT DISTINCT kind, schema_version FROM unknown_events ORDER BY 1, 2")
    known = [
        f"{kind} {version}"
        for kind, version in rows
        if kind in KNOWN_KINDS and not is_later(kind, version)
    ]
    return f"an earlier release ignored what this one reads: {', '.join(known)}" if known else None
