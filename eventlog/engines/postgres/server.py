"""The server's state, and whether it would keep acknowledged writes.

Read under the log's lock for every group of writes: an operator may change settings, and a failover
the server, at any time.
"""

import re
from typing import Literal

from msgspec import Struct

from engramlog.eventlog.engines.postgres.connecting import Connection
from engramlog.eventlog.engines.postgres.reading import fetch
from engramlog.eventlog.errors import DataDirectoryError

Durability = Literal["quorum", "server"]
"""``quorum``: a write is acknowledged once a synchronous standby also has it on disk. ``server``:
once the server confirms it."""

STATE = """
SELECT h.position, h.received_at, h.received_hlc, h.hash, h.origin, h.epoch,
  current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
  current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('transaction_read_only'),
  ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
FROM engramlog.head h"""
TIMELINE = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
LOCK = STATE + " FOR UPDATE OF h"

_LIST = re.compile(r"^\s*(?:(?:(?:ANY|FIRST)\s+)?(\d+)\s*)?\((.+)\)\s*$", re.IGNORECASE | re.DOTALL)


class ServerState(Struct, frozen=True):
    """The log's head and the settings on which durability depends."""

    position: int
    received_at: int
    received_hlc: int
    hash: bytes
    origin: str | None
    epoch: int
    synchronous_commit: str
    synchronous_standby_names: str
    fsync: str
    full_page_writes: str
    transaction_read_only: str
    timeline: int


def standbys_awaited(names: str) -> int:
    """How many standbys ``synchronous_standby_names`` makes a commit wait for."""
    if not names.strip():
        return 0
    listed = _LIST.match(names)
    return int(listed[1] or 1) if listed else 1


def durability_fault(state: ServerState, wanted: Durability) -> str | None:
    """Why the server takes no writes, or could lose an acknowledged one; None if it does, and could
    not."""
    if state.transaction_read_only == "on":
        return "the server is read-only: the log takes no writes"
    if state.fsync != "on" or state.full_page_writes != "on":
        return "the server runs with fsync or full_page_writes off: a power cut would lose writes"
    if state.synchronous_commit not in ("on", "remote_apply"):
        return f"synchronous_commit is {state.synchronous_commit}: writes would not be waited for"
    if wanted == "quorum" and standbys_awaited(state.synchronous_standby_names) < 1:
        return (
            "synchronous_standby_names is empty, so no standby holds what is acknowledged: set it "
            "on the server, such as 'ANY 1 (one, two)', or set log_durability = \"server\" here"
        )
    return None


def state_of(db: Connection, statement: str) -> ServerState:
    rows = fetch(db, statement)
    if not rows:
        raise DataDirectoryError("the log has no head")
    return ServerState(*rows[0])


def check_owner(state: ServerState, origin: str, epoch: int) -> None:
    """Raises DataDirectoryError if this node may not write the log."""
    if state.origin not in (None, origin):
        raise DataDirectoryError(
            f"the log is that of {state.origin}, this node is {origin}: nodes over one log share "
            "its identity: take a copy of it ('engramlog identity backup'), or, if none is left, "
            "give the log to this node ('engramlog log adopt')"
        )
    if state.epoch > epoch:
        raise DataDirectoryError(
            f"the log is in epoch {state.epoch}, this node's identity in {epoch}: take a "
            "copy of the identity of a node that is in the later one ('engramlog identity backup')"
        )


def check_whole(state: ServerState) -> None:
    """Raises DataDirectoryError if the log is an incomplete copy, which has an origin, but is in no
    epoch yet: its nodes would write a second history."""
    if state.origin is not None and state.epoch == 0:
        raise DataDirectoryError(
            "the log is an incomplete copy: repeat 'engramlog copy-log', it continues"
        )


def another_history(end: int, mine: int) -> str:
    return (
        f"the server's log, which ends at {end}, is not the one that this node has followed to "
        f"{mine}: bring that one back, then restart the node"
    )
