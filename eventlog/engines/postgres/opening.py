"""Checks on opening a log or taking its lock: its owner, and its history."""

from engramlog.eventlog.engines.postgres.connecting import Connection
from engramlog.eventlog.engines.postgres.reading import fetch
from engramlog.eventlog.engines.postgres.server import ServerState
from engramlog.eventlog.errors import DataDirectoryError


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
