"""The node that serves a data directory, found through its control file."""

from __future__ import annotations

from pathlib import Path

from engramlog.api.client.client import Client, ClientError
from engramlog.api.node.control_file import read_control


def running_node(data_dir: Path) -> Client | None:
    """A client of the node that holds the directory; None where none answers."""
    control = read_control(data_dir)
    if control is None:
        return None
    client = Client(control.url, control.token)
    try:
        client.get("/v1/control/ping")
    except ClientError:
        client.close()
        return None
    return client
