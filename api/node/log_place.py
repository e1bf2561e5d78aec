"""Where the log of a data directory is: in it, or on a server that many nodes share.

A directory remembers a log that is elsewhere (``log.json``): opened without it, it would begin
an empty log under the same identity, and so a second history.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.directory import DataDirectory, HeldDirectory
from engramlog.eventlog.durable_file import replace
from engramlog.eventlog.engines.choosing import is_log_url, open_shared_log, shown_url
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import DataDirectoryError, LogCutBack
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.log import ReadableLog, WholeLog
from engramlog.projections.embedding.vectors.blocks import remove_blocks
from engramlog.projections.image.files import ImageFiles
from engramlog.projections.tables.store import generations, remove_generation
from engramlog.replay.opening import tables_beyond
from engramlog.replay.snapshots import Snapshots

if TYPE_CHECKING:
    from engramlog.eventlog.engines.postgres.log import PostgresLog

PLACE_FILE = "log.json"

Durability = Literal["quorum", "server"]


class LogPlace(Struct, frozen=True, omit_defaults=True):
    """Where the log was when the directory was last opened; without any password. ``scopes``
    are those that its tables hold; none: all."""

    url: str
    scopes: list[str] = []

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self.scopes) or EVERY_SCOPE


def remembered(path: Path) -> LogPlace | None:
    """The place of the directory's log, where that is not in it. Raises DataDirectoryError."""
    try:
        return msgspec.json.decode((path / PLACE_FILE).read_bytes(), type=LogPlace)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as fault:
        raise DataDirectoryError(f"cannot read {path / PLACE_FILE}: {fault}") from fault


def require_own_log(path: Path) -> None:
    """Raises DataDirectoryError if the directory's log is not in it."""
    place = remembered(path)
    if place is not None:
        raise DataDirectoryError(
            f"the log of {path} is in PostgreSQL ({place.url}): name it with --log or STIGMEM_LOG; "
            "to take it out, see 'engramlog copy-log'"
        )


def open_log(
    directory: HeldDirectory,
    clock: Clock,
    url: str,
    durability: Durability,
    scopes: Collection[str] = (),
) -> WholeLog:
    """The log of an open data directory; ``url`` is empty for one in the directory.

    ``scopes`` are those that the node holds, ``*`` all; none: as before. Where they change, the
    directory's views are removed, to be made again.

    Raises:
        DataDirectoryError: the directory has another log than the one asked for, or ``scopes``
            are given for one in the directory.
        CorruptLog, StorageFailed: it cannot be opened.
    """
    identity = directory.identity
    if not url:
        if scopes:
            raise DataDirectoryError("scopes are for a node over a log in PostgreSQL: name it, too")
        require_own_log(directory.path)
        return SqliteLog.open(
            directory.log_path, origin=identity.node_id, epoch=identity.epoch, clock=clock
        )
    if not is_log_url(url):
        raise DataDirectoryError(f"log must be a postgresql:// address, is {url!r}")
    if directory.log_path.exists():
        raise DataDirectoryError(
            f"{directory.path} has a log of its own: copy it with 'engramlog copy-log "
            f"{directory.path} URL', then move {directory.log_path} out of the directory"
        )
    before = remembered(directory.path)
    held = EVERY_SCOPE if before is None else before.held
    wanted = (EVERY_SCOPE if "*" in scopes else frozenset(scopes)) or held
    log = open_shared_log(
        url,
        origin=identity.node_id,
        epoch=identity.epoch,
        clock=clock,
        durability=durability,
        held=wanted,
    )
    if wanted != held:
        _remove_views(directory)
    place = LogPlace(shown_url(url), [] if wanted == EVERY_SCOPE else sorted(wanted))
    replace(directory.path / PLACE_FILE, msgspec.json.encode(place) + b"\n")
    return log


def _remove_views(directory: HeldDirectory) -> None:
    """Remove everything derived from the log: tables, memory image, snapshots, vectors."""
    link = directory.projections_path
    link.unlink(missing_ok=True)
    for generation in generations(link):
        remove_generation(generation)
    ImageFiles(directory.path).discard()
    Snapshots(directory).remove_holding([0])
    remove_blocks(directory.path)
    _remove_vectors(directory)


def _remove_vectors(directory: HeldDirectory) -> None:
    for vectors in directory.path.glob("vectors-*.db*"):
        vectors.unlink()


def settled_log(
    directory: HeldDirectory, clock: Clock, url: str, durability: Durability,
    scopes: Collection[str] = (), *, accept_rollback: bool,
) -> WholeLog:  # fmt: skip
    """``open_log`` once it is certain that the log does not end before the tables.

    Where it does, acknowledged events are gone, and peers may hold them: written on under the same
    epoch, its streams would say two things. ``accept_rollback`` begins another epoch.

    Raises:
        LogCutBack: it ends before them, and that is not accepted.
        DataDirectoryError, CorruptLog, StorageFailed: as ``open_log``.
    """
    log = open_log(directory, clock, url, durability, scopes)
    try:
        reached = tables_beyond(directory.projections_path, log)
        head = log.head().position
    except BaseException:
        log.close()
        raise
    if not reached:
        return log
    log.close()
    if not accept_rollback:
        remedy = (
            "Bring back the server that has them"
            if url
            else "Put the whole log.db back, or restore a backup"
        )
        raise LogCutBack(
            f"the log of {directory.path} ends at position {head}, its tables reach {reached}: "
            f"acknowledged events are gone. {remedy}. If they are gone for good, continue in a new "
            "epoch: 'engramlog serve --accept-rollback'"
        )
    identity = directory.identity
    identity.start_epoch(identity.epoch + 1, "restored")
    _remove_vectors(directory)  # they follow positions, which will be those of other events
    return open_log(directory, clock, url, durability, scopes)


def open_log_to_read(directory: DataDirectory, clock: Clock, url: str) -> ReadableLog:
    """The log of a directory that another process may hold; nothing is written to it."""
    identity = directory.identity
    if url:
        place = remembered(directory.path)
        return open_shared_log(
            url,
            origin=identity.node_id,
            epoch=identity.epoch,
            clock=clock,
            durability="server",
            held=EVERY_SCOPE if place is None else place.held,
        )
    require_own_log(directory.path)
    return SqliteLog.open(
        directory.log_path,
        origin=identity.node_id,
        epoch=identity.epoch,
        clock=clock,
        read_only=True,
    )


def shared(log: WholeLog) -> PostgresLog | None:
    """The log as one that other nodes write to as well, where it is."""
    if isinstance(log, SqliteLog):
        return None
    from engramlog.eventlog.engines.postgres.log import PostgresLog

    return log if isinstance(log, PostgresLog) else None
