"""The file in a data directory that says how to reach the node which serves it."""

from pathlib import Path

import msgspec
from msgspec import Struct

from engramlog.eventlog.durable_file import replace

CONTROL_NAME = "control.json"


class Control(Struct, frozen=True):
    """How to reach the node that holds a data directory."""

    pid: int
    url: str
    token: str


def write_control(path: Path, control: Control) -> None:
    """Write the control file atomically, readable by its owner only."""
    path.unlink(missing_ok=True)  # of a killed process; a full disk has no room beside it
    replace(path, msgspec.json.encode(control))


def read_control(data: Path) -> Control | None:
    """How to reach the node that serves this directory; None if no file says so."""
    try:
        return msgspec.json.decode((data / CONTROL_NAME).read_bytes(), type=Control)
    except (OSError, ValueError):
        return None
