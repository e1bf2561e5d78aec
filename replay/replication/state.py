"""``replica.json``: the primary of a replica's data directory. A primary has no such file."""

from pathlib import Path

import msgspec
from msgspec import Struct

from engramlog.eventlog.durable_file import replace, sync_folder
from engramlog.eventlog.errors import DataDirectoryError

STATE_FILE = "replica.json"
PROMOTED_FILE = "replica.promoted.json"


class ReplicaState(Struct, frozen=True):
    """The primary: its address, its node id and its key (base64)."""

    primary_url: str
    node_id: str
    public_key: str


def load_state(folder: Path) -> ReplicaState | None:
    """The directory's primary; None if it is not a replica. Raises DataDirectoryError."""
    return _load(folder / STATE_FILE)


def promoted_state(folder: Path) -> ReplicaState | None:
    """The primary before the promotion. Raises DataDirectoryError."""
    return _load(folder / PROMOTED_FILE)


def save_state(folder: Path, state: ReplicaState) -> None:
    """Make the directory a replica's."""
    replace(folder / STATE_FILE, msgspec.json.encode(state) + b"\n")


def end_state(folder: Path) -> None:
    """Make the directory a primary's from now on."""
    (folder / STATE_FILE).rename(folder / PROMOTED_FILE)
    sync_folder(folder)


def _load(path: Path) -> ReplicaState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReplicaState)
    except (FileNotFoundError, NotADirectoryError):  # opening the directory reports the latter
        return None
    except (OSError, ValueError) as fault:
        raise DataDirectoryError(f"cannot read {path}: {fault}") from fault
