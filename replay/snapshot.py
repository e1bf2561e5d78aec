"""One snapshot: a copy of the tables at a position, and the document that describes it."""

import re
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.durable_file import digest_of
from engramlog.eventlog.engines.sqlite.copying import copy_database
from engramlog.eventlog.errors import EventLogError, StorageFailed
from engramlog.eventlog.log import EventLog
from engramlog.projections.tables.database import open_reader, remove_database
from engramlog.projections.tables.digest import TableDigests, digest_tables
from engramlog.projections.tables.file_state import file_state, newly_known, other_versions
from engramlog.projections.tables.store import current_generation

FORMAT = 1
READ_BYTES = 1 << 20
COPY_ATTEMPTS = 3
_NAME = re.compile(r"[0-9]{12}")
_encode = msgspec.json.Encoder(order="sorted").encode


class SnapshotFault(EventLogError):
    """A snapshot cannot be taken or used; the message names it and the reason."""


class Snapshot(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a snapshot, recorded when complete.

    Attributes:
        position: the last event applied; ``hash`` (hex) is that event's.
        made_at_us: the node's clock.
        automatic: whether the node took it by itself, and may remove it for newer ones.
        versions: of the projectors that made the rows.
        digest, tables: of all rows, and table by table
            (``engramlog.projections.tables.digest``).
        bytes, sha256: of the file.
    """

    format: int
    position: int
    hash: str
    made_at_us: int
    automatic: bool
    versions: dict[str, int]
    digest: str
    tables: dict[str, str]
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return name_of(self.position)


def name_of(position: int) -> str:
    return f"{position:012d}"


def position_named(stem: str) -> int | None:
    """The position in a file's name; None for another kind of name."""
    return int(stem) if _NAME.fullmatch(stem) else None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The document's bytes, as stored and sent."""
    return _encode(snapshot) + b"\n"


def decode_snapshot(data: bytes) -> Snapshot:
    """A document from its bytes. Raises SnapshotFault."""
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except ValueError as fault:
        raise SnapshotFault(f"a snapshot's document cannot be read: {fault}") from fault
    if snapshot.format != FORMAT or snapshot.position < 1:
        raise SnapshotFault(f"a snapshot of format {snapshot.format} cannot be read here")
    return snapshot


def described(path: Path, made_at_us: int, *, automatic: bool) -> Snapshot:
    """The document of a complete file of tables. Raises SnapshotFault: a projector is halted or
    behind, or other versions made the file. StorageFailed: it cannot be read."""
    try:
        with closing(open_reader(path)) as db:
            state, digests = file_state(db), digest_tables(db)
    except apsw.Error as fault:
        raise StorageFailed(f"{path.name}: {fault}") from fault
    if state.halted:
        name, why = next(iter(sorted(state.halted.items())))
        raise SnapshotFault(f"no snapshot can be taken: projector {name} is halted: {why}")
    if not state.position:
        raise SnapshotFault("no snapshot can be taken: the log is empty")
    sha256, size = digest_of(path)
    return Snapshot(
        FORMAT,
        state.position,
        state.hash.hex(),
        made_at_us,
        automatic,
        state.versions,
        digests.local,
        digests.tables,
        size,
        sha256,
    )


def mismatch(snapshot: Snapshot, log: EventLog) -> str | None:
    """Why a snapshot, apart from its file, does not fit this release and log; None if it does."""
    if changed := other_versions(snapshot.versions):
        return f"other versions of the projectors made it: {', '.join(changed)}"
    found = log.read(snapshot.position - 1, 1)
    if not found or found[0].hash.hex() != snapshot.hash:
        return "its last event is not on this log's chain"
    return None


def file_fault(snapshot: Snapshot, path: Path, *, rows: bool) -> str | None:
    """Why a file does not match its document; ``rows``: read every row as well."""
    try:
        if digest_of(path) != (snapshot.sha256, snapshot.bytes):
            return "its file is not as it was written"
        with closing(open_reader(path)) as db:
            state = file_state(db)
            unread = newly_known(db)
            digests = digest_tables(db) if rows else None
    except FileNotFoundError:
        return "its file is missing"
    except (OSError, apsw.Error, StorageFailed) as fault:
        return f"its file cannot be read: {fault}"
    stands = (state.position, state.hash.hex(), state.versions)
    if stands != (snapshot.position, snapshot.hash, snapshot.versions) or state.halted:
        return "its tables are at another position than it says"
    if unread is not None or digests is None:
        return unread
    wrong = differing(snapshot, digests)
    if wrong or digests.local != snapshot.digest:
        return f"the digests of its tables are other ones: {', '.join(wrong)}"
    return None


def differing(snapshot: Snapshot, digests: TableDigests) -> list[str]:
    """Tables whose digests differ from the document's."""
    names = digests.tables.keys() | snapshot.tables.keys()
    return sorted(name for name in names if digests.tables.get(name) != snapshot.tables.get(name))


def copy_in_use(link: Path, target: Path) -> None:
    """Copy the current generation, or the one after it if a rebuild removes it first."""
    for attempt in range(1, COPY_ATTEMPTS + 1):
        source = current_generation(link)
        if source is None:
            raise SnapshotFault("no snapshot can be taken: there are no tables")
        try:
            copy_database(source, target)
        except StorageFailed:
            if source.exists() or attempt == COPY_ATTEMPTS:
                raise
            remove_database(target)
        else:
            return


def check_equal(made: Snapshot, expected: Snapshot) -> None:
    """Raises SnapshotFault if received tables differ from the expected ones."""
    fields = ("position", "hash", "versions", "digest", "tables", "bytes", "sha256")
    for field in fields:
        if getattr(made, field) != getattr(expected, field):
            raise SnapshotFault(
                f"snapshot {expected.position} is not what it is said to be: {field}"
            )
