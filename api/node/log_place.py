"""Where the log of a data directory is: inside it, or on a server that several nodes share.

A directory remembers an external log (``log.json``). Opened without it, the node would begin an
empty log under the same identity: a second history.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.directory import LOG_PLACE_FILE, DataDirectory, HeldDirectory
from engramlog.eventlog.durable_file import replace
from engramlog.eventlog.engines.log_addresses import is_log_url, require_driver, shown_url
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import DataDirectoryError, LogCutBack
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.log import ReadableLog, WholeLog, holds_event
from engramlog.projections.embedding.vectors.blocks import remove_blocks
from engramlog.projections.image.files import ImageFiles
from engramlog.projections.tables.database import remove_database
from engramlog.projections.tables.declared.subscriptions import LEDGER_NAME
from engramlog.projections.tables.store import generations
from engramlog.replay.opening import tables_end, views_reach
from engramlog.replay.snapshots import Snapshots

if TYPE_CHECKING:
    from engramlog.eventlog.engines.postgres.log import PostgresLog

Durability = Literal["quorum", "server"]


class LogPlace(Struct, frozen=True, omit_defaults=True):
    """Where the log was when the directory was last opened, without the password. ``scopes``: those
    that its tables hold; empty: all. ``epoch``: the identity's when the log last had what the
    tables were made of; 0 if unknown."""

    url: str
    scopes: list[str] = []
    epoch: int = 0

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self.scopes) or EVERY_SCOPE


def remembered(path: Path) -> LogPlace | None:
    """The place of the directory's log, if it is external. Raises DataDirectoryError."""
    try:
        return msgspec.json.decode((path / LOG_PLACE_FILE).read_bytes(), type=LogPlace)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise DataDirectoryError(f"cannot read {path / LOG_PLACE_FILE}: {fault}") from fault


def require_own_log(directory: DataDirectory) -> None:
    """Raises DataDirectoryError if the directory's log is external, or an incomplete copy."""
    directory.require_whole_log()
    place = remembered(directory.path)
    if place is not None:
        raise DataDirectoryError(
            f"the log of {directory.path} is in PostgreSQL ({place.url}): name it with STIGMEM_LOG "
            "(serve also takes --log); to copy it into the directory, see 'engramlog copy-log'"
        )


def log_inside(directory: DataDirectory, clock: Clock, *, read_only: bool = False) -> SqliteLog:
    """The log in a data directory. Raises as ``SqliteLog.open``."""
    return SqliteLog.open(
        directory.log_path,
        origin=directory.identity.node_id,
        epoch=directory.identity.epoch,
        clock=clock,
        read_only=read_only,
    )


def log_shared(
    url: str,
    identity: Identity,
    clock: Clock,
    durability: Durability = "server",
    held: frozenset[str] = EVERY_SCOPE,
    *,
    copying: bool = False,
) -> PostgresLog:
    """The log at an address, for the node of an identity; see ``PostgresLog.open``."""
    require_driver()
    from engramlog.eventlog.engines.postgres.log import PostgresLog

    return PostgresLog.open(
        url,
        origin=identity.node_id,
        epoch=identity.epoch,
        clock=clock,
        durability=durability,
        held=held,
        copying=copying,
    )


def open_log(
    directory: HeldDirectory,
    clock: Clock,
    url: str,
    durability: Durability,
    scopes: Collection[str] = (),
) -> WholeLog:
    """The log of an open data directory; ``url`` is empty for one in the directory.

    ``scopes`` are those that the node holds, ``*`` all; empty: as before. If they change, this
    removes the directory's views; the node makes them again. Raises DataDirectoryError: the
    directory's log is another one, or ``scopes`` are given for a log in the directory; CorruptLog,
    StorageFailed: the log does not open.
    """
    if not url:
        if scopes:
            raise DataDirectoryError("scopes are for a node over a log in PostgreSQL: name it, too")
        require_own_log(directory)
        return log_inside(directory, clock)
    if not is_log_url(url):
        raise DataDirectoryError("log must be a postgresql:// address")  # it may have a password
    if directory.log_path.exists():
        raise DataDirectoryError(
            f"{directory.path} contains a log: copy it with 'engramlog copy-log {directory.path} "
            f"URL', then move {directory.log_path} out of the directory"
        )
    before = remembered(directory.path)
    held = EVERY_SCOPE if before is None else before.held
    wanted = (EVERY_SCOPE if "*" in scopes else frozenset(scopes)) or held
    log = log_shared(url, directory.identity, clock, durability, wanted)
    if wanted != held:
        _remove_views(directory)
    scopes = [] if wanted == EVERY_SCOPE else sorted(wanted)
    _remember(directory, LogPlace(shown_url(url), scopes, 0 if before is None else before.epoch))
    return log


def _remember(directory: HeldDirectory, place: LogPlace) -> None:
    replace(directory.path / LOG_PLACE_FILE, msgspec.json.encode(place) + b"\n")


def _remove_views(directory: HeldDirectory) -> None:
    """Remove everything derived from the log: tables, memory image, snapshots, vectors."""
    link = directory.projections_path
    link.unlink(missing_ok=True)
    for generation in generations(link):
        remove_database(generation)
    ImageFiles(directory.path).discard()
    Snapshots(directory).remove_holding([0])
    remove_blocks(directory.path)
    _remove_vectors(directory)


def _remove_vectors(directory: HeldDirectory) -> None:
    for vectors in directory.path.glob("vectors-*.db*"):
        vectors.unlink()


def settled_log(
    directory: HeldDirectory,
    clock: Clock,
    url: str,
    durability: Durability,
    scopes: Collection[str],
    *,
    accept_rollback: bool,
) -> WholeLog:
    """``open_log``, which also checks that the log has what the tables were made of.

    If not, acknowledged events are lost here, and peers may hold them. Further writes under the
    same epoch would give their streams two histories. ``accept_rollback`` begins another epoch
    instead, and so has a node whose later identity this directory has by now. Raises LogCutBack:
    the log lacks events of the tables, and ``accept_rollback`` is off; DataDirectoryError,
    CorruptLog, StorageFailed as ``open_log``.
    """
    if not url:
        require_own_log(directory)
    absent = not url and not directory.log_path.exists()
    if absent and not accept_rollback and (reached := views_reach(directory)):
        raise _cut_back(directory, url, _ends(0, reached))  # before an empty log takes its place
    log = open_log(directory, clock, url, durability, scopes)
    try:
        lacks = _lacks(directory, log, shared=bool(url))
    except BaseException:
        log.close()
        raise
    place, identity = remembered(directory.path), directory.identity
    accepted = place is not None and 0 < place.epoch < identity.epoch
    if lacks is not None:
        log.close()
        if not accepted and not accept_rollback:
            raise _cut_back(directory, url, lacks)
        if not accepted:
            identity.start_epoch(identity.epoch + 1, "restored")
        _remove_vectors(directory)  # they go by positions, which other events will reuse
        remove_database(directory.path / LEDGER_NAME)
        log = open_log(directory, clock, url, durability, scopes)
    if place is not None and place.epoch != identity.epoch:
        _remember(directory, msgspec.structs.replace(place, epoch=identity.epoch))
    return log


def _lacks(directory: HeldDirectory, log: WholeLog, *, shared: bool) -> str | None:
    """Which events of the directory's tables its log lacks; None if it has all."""
    reached, head = views_reach(directory), log.head().position
    if reached > head:
        return _ends(head, reached)
    position, digest = tables_end(directory)
    if shared and position and not holds_event(log, position, digest):
        return f"has another event at position {position} than its tables"
    return None


def _ends(head: int, reached: int) -> str:
    return f"ends at position {head}, its tables reach {reached}"


def _cut_back(directory: HeldDirectory, url: str, lacks: str) -> LogCutBack:
    remedy, then = "Put the whole log.db with its -wal file back, or restore a backup", ""
    if url:
        remedy, then = "Bring back the server that has them", ", and give the other nodes its keys"
    return LogCutBack(
        f"the log of {directory.path} {lacks}: acknowledged events are missing. {remedy}. If the "
        "events are lost for good, continue in a new epoch: 'engramlog serve --accept-rollback'"
        + then
    )


def open_log_to_read(directory: DataDirectory, clock: Clock, url: str) -> ReadableLog:
    """The log of a directory that another process may hold, opened to read only."""
    if url:
        place = remembered(directory.path)
        held = EVERY_SCOPE if place is None else place.held
        return log_shared(url, directory.identity, clock, held=held)
    require_own_log(directory)
    return log_inside(directory, clock, read_only=True)


def shared(log: WholeLog) -> PostgresLog | None:
    """The log, if other nodes may write to it too."""
    if isinstance(log, SqliteLog):
        return None
    from engramlog.eventlog.engines.postgres.log import PostgresLog

    return log if isinstance(log, PostgresLog) else None
