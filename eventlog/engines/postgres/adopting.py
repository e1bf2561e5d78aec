"""Giving a log whose node's keys are lost to another node, as the owner of its tables."""

from engramlog.eventlog.engines.postgres.connecting import connect, failures
from engramlog.eventlog.engines.postgres.schema import check_version
from engramlog.eventlog.engines.postgres.server import (
    STATE,
    ServerState,
    check_whole,
    state_of,
)
from engramlog.eventlog.errors import DataDirectoryError
from engramlog.eventlog.identity import Identity

LOCK_MILLISECONDS_MAX = 5000
_ADOPT = "UPDATE engramlog.head SET origin = %s, epoch = %s WHERE origin = %s AND epoch = %s"


def adoptable(url: str) -> ServerState:
    """The state of the log at ``url``. Raises DataDirectoryError: there is none, it is new, or an
    incomplete copy. StorageFailed: the server cannot be reached."""
    with failures(), connect(url) as db:
        check_version(db)
        state = state_of(db, STATE)
    if state.origin is None:
        raise DataDirectoryError("the log is new: serve it")
    check_whole(state)
    return state


def adopt(url: str, before: ServerState, heir: Identity) -> None:
    """Make the log the heir's. Nodes with the earlier identity write no more. Raises
    DataDirectoryError: the log is not ``before``'s any more. LogBusy: a node holds its lock.
    StorageFailed: the server cannot be reached or refuses."""
    with failures(), connect(url, lock_timeout=f"{LOCK_MILLISECONDS_MAX}") as db, db.transaction():
        db.execute("ALTER TABLE engramlog.head DISABLE TRIGGER head_checked")
        given = (heir.node_id, heir.epoch, before.origin, before.epoch)
        if db.execute(_ADOPT, given).rowcount != 1:
            raise DataDirectoryError("the log has changed hands meanwhile: try again")
        db.execute("ALTER TABLE engramlog.head ENABLE TRIGGER head_checked")
