"""Where the log of a data directory is: in it, or on a server that many nodes share.

A directory remembers a log that is elsewhere (``log.json``): opened without it, it would begin
an empty log under the same identity, and so a second history.
"""

from __future__ import annotations

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
from engramlog.eventlog.log import ReadableLog, WholeLog
from engramlog.replay.opening import tables_beyond

if TYPE_CHECKING:
    from engramlog.eventlog.engines.postgres.log import PostgresLog

PLACE_FILE = "log.json"

Durability = Literal["quorum", "server"]


class LogPlace(Struct, frozen=True):
    """Where the log was when the directory was last opened; without any password."""

    url: str


def remembered(path: Path) -> str | None:
    """The address of the directory's log, where that is not in it. Raises DataDirectoryError."""
    try:
        return msgspec.json.decode((path / PLACE_FILE).read_bytes(), type=LogPlace).url
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as fault:
        raise DataDirectoryError(f"cannot read {path / PLACE_FILE}: {fault}") from fault


def require_own_log(path: Path) -> None:
    """Raises DataDirectoryError if the directory's log is not in it."""
    url = remembered(path)
    if url is not None:
        raise DataDirectoryError(
            f"the log of {path} is in PostgreSQL ({url}): name it with --log or STIGMEM_LOG; to "
            "take it out, see 'engramlog copy-log'"
        )


def open_log(directory: HeldDirectory, clock: Clock, url: str, durability: Durability) -> WholeLog:
    """The log of an open data directory; ``url`` is empty for one in the directory.

    Raises:
        DataDirectoryError: the directory has another log than the one asked for.
        CorruptLog, StorageFailed: it cannot be opened.
    """
    identity = directory.identity
    if not url:
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
    log = open_shared_log(
        url, origin=identity.node_id, epoch=identity.epoch, clock=clock, durability=durability
    )
    replace(directory.path / PLACE_FILE, msgspec.json.encode(LogPlace(shown_url(url))) + b"\n")
    return log


def settled_log(
    directory: HeldDirectory, clock: Clock, url: str, durability: Durability, *,
    accept_rollback: bool,
) -> WholeLog:  # fmt: skip
    """``open_log`` once it is certain that the log does not end before the tables.

    Where it does, acknowledged events are gone, and peers may hold them: written on under the same
    epoch, its streams would say two things. ``accept_rollback`` begins another epoch.

    Raises:
        LogCutBack: it ends before them, and that is not accepted.
        DataDirectoryError, CorruptLog, StorageFailed: as ``open_log``.
    """
    log = open_log(directory, clock, url, durability)
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
    for vectors in directory.path.glob("vectors-*.db*"):
        vectors.unlink()  # they follow positions, which will be those of other events
    return open_log(directory, clock, url, durability)


def open_log_to_read(directory: DataDirectory, clock: Clock, url: str) -> ReadableLog:
    """The log of a directory that another process may hold; nothing is written to it."""
    identity = directory.identity
    if url:
        return open_shared_log(
            url, origin=identity.node_id, epoch=identity.epoch, clock=clock, durability="server"
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
