"""Checks on opening a log or taking its lock: its owner, and its last events."""

from __future__ import annotations

from engramlog.eventlog.chain import PAYLOAD_MISSING, check_link
from engramlog.eventlog.codec import decode
from engramlog.eventlog.engines.postgres import statements
from engramlog.eventlog.engines.postgres.connecting import Connection
from engramlog.eventlog.engines.postgres.reading import fetch, scalar
from engramlog.eventlog.engines.postgres.server import ServerState
from engramlog.eventlog.errors import CorruptLog, DataDirectoryError
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import Head, StreamHead

TAIL_CHECK_EVENTS = 64


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
            "its identity"
        )
    if state.epoch > epoch:
        raise DataDirectoryError(
            f"the log is in epoch {state.epoch}, this node's identity in {epoch}: take the "
            "identity of a node that is in the later one"
        )


def another_history(end: int, mine: int) -> str:
    return (
        f"the server's log, which ends at {end}, is not the one that this node has followed to "
        f"{mine}; restart the node to follow it"
    )


def check_tail(db: Connection, head: Head) -> None:
    """Raises CorruptLog if the last events contradict themselves."""
    after = max(0, head.position - TAIL_CHECK_EVENTS)
    tips: dict[str, StreamHead] = {}
    for row in fetch(db, statements.READ_ALL, {"after": after, "limit": TAIL_CHECK_EVENTS}):
        stored = Stored(*row)
        if stored.position != after + 1:
            raise CorruptLog(after + 1, f"missing: the next event is at {stored.position}")
        after = stored.position
        header = decode(stored).header
        before = StreamHead(header.stream, header.stream_seq - 1, header.prev_hash)
        fault = check_link(tips.get(header.stream, before), stored)
        gone = stored.payload is None and stored.salt is None
        if fault == PAYLOAD_MISSING and gone:
            # The erasure of another node's event may arrive on a later page.
            named = stored.peer is not None or scalar(db, statements.IS_NAMED, stored.position)
            fault = None if named else fault
        if fault is not None:
            raise CorruptLog(stored.position, fault)
        tips[header.stream] = StreamHead(header.stream, header.stream_seq, stored.hash)
