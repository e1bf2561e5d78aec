"""The file in a data directory that says how to reach the node which serves it, and that node."""

import errno
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from engramlog.api.client.client import Client, ClientError
from engramlog.eventlog.durable_file import replace

CONTROL_NAME = "control.json"

_log = logging.getLogger(__name__)


class Control(Struct, frozen=True):
    """How to reach the node that holds a data directory."""

    pid: int
    url: str
    token: str


@contextmanager
def control_file(data: Path, control: Control) -> Generator[None]:
    """Within a ``with`` block, the data directory says how to reach its node. The file is written
    atomically, readable by its owner only. A node on a full disk answers without it."""
    path = data / CONTROL_NAME
    path.unlink(missing_ok=True)  # of a killed process; a full disk has no room beside it
    try:
        replace(path, msgspec.json.encode(control))
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _log.warning(
            "%s: %s: commands on the directory reach this node once it is restarted with space",
            path,
            fault.strerror,
        )
    try:
        yield
    finally:
        with suppress(OSError):  # out of reach: nothing answers there, so the file means nothing
            path.unlink()


def read_control(data: Path) -> Control | None:
    """How to reach the node that serves this directory; None if no file says so."""
    try:
        return msgspec.json.decode((data / CONTROL_NAME).read_bytes(), type=Control)
    except (OSError, ValueError):
        return None


def running_node(data_dir: Path) -> Client | None:
    """A client of the node that holds the directory; None if none answers."""
    control = running_control(data_dir)
    return None if control is None else Client(control.url, control.token)


def running_control(data_dir: Path) -> Control | None:
    """How to reach the node that holds the directory; None if none answers."""
    control = read_control(data_dir)
    if control is None:
        return None
    with Client(control.url, control.token) as client:
        try:
            client.get("/v1/control/ping")
        except ClientError:
            return None
    return control
