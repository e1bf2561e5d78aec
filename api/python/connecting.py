"""Connecting to a memory: by URL, to a directory that a node serves, or by opening one here."""

import asyncio
import os
from pathlib import Path

from engramlog.api.client.client import ClientError
from engramlog.api.client.running_node import running_control
from engramlog.api.python.transport import HttpTransport, Transport
from engramlog.eventlog.errors import DirectoryLocked

OWN_NAME = "user:me"
"""The source of writes without one."""


async def reach(place: str | os.PathLike[str], key: str | None) -> Transport:
    """Connect to a memory.

    Raises:
        ClientError: a directory with a key, or a malformed URL.
        DirectoryLocked: another process holds the directory without serving it.
        DataDirectoryError, CorruptLog and the other errors of ``Node.open``; SettingsError.
    """
    text = os.fspath(place)
    if "://" in text:
        return HttpTransport(text, key)
    if key is not None:
        raise ClientError(f"{text!r} is a directory, which needs no key")
    path = Path(text).expanduser()
    node = await served(text)
    if node is not None:
        return node
    from engramlog.api.python.embedded import EmbeddedNode

    try:
        return await EmbeddedNode.join(path, OWN_NAME)
    except DirectoryLocked:
        node = await served(text)  # a node may serve it by now
        if node is None:
            raise
        return node


async def served(place: str) -> Transport | None:
    """The way to the node that serves a directory, if one does."""
    path = Path(place).expanduser()
    control = await asyncio.to_thread(running_control, path)
    return None if control is None else HttpTransport(control.url, control.token, OWN_NAME)
