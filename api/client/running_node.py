"""Finds the node that serves a data directory, through its control file."""

from pathlib import Path

from engramlog.api.client.client import Client, ClientError
from engramlog.api.node.process.control_file import Control, read_control


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
