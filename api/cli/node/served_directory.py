"""A data directory as a node, whichever process serves it."""

from contextlib import ExitStack
from threading import Lock
from typing import Self

from engramlog.api.cli.opening import embedded, node_or_client, open_node
from engramlog.api.client.client import Client, ClientError
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import Control, control_file, running_node
from engramlog.api.settings import Settings
from engramlog.eventlog.errors import DirectoryLocked


class ServedDirectory:
    """Calls the node that serves the directory; if none does, this process serves it from then on.
    So several processes may start in any order; when the serving one ends, another takes over.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._own: Control | None = None
        self._lock = Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def client(self) -> Client:
        """A connection to the node. Raises ClientError: another process holds the directory and
        does not answer."""
        with self._lock:
            if self._own is None:
                running = running_node(self._settings.data_dir)
                if running is not None:
                    return running
                try:
                    node = node_or_client(self._settings, lambda: open_node(self._settings))
                except DirectoryLocked as fault:
                    raise ClientError(str(fault)) from fault
                if isinstance(node, Client):
                    return node
                self._own = self._serve(node)
            return Client(self._own.url, self._own.token)

    def _serve(self, node: Node) -> Control:
        own = self._open.enter_context(embedded(node, self._settings, "begun"))
        self._open.enter_context(control_file(self._settings.data_dir, own))
        return own
