"""A data directory as a node, whichever process serves it."""

from contextlib import ExitStack
from threading import Lock
from time import monotonic, sleep
from typing import Self

from engramlog.api.client.client import Client, ClientError
from engramlog.api.client.running_node import running_node
from engramlog.api.console.opening import embedded, open_node
from engramlog.api.node.process.control_file import CONTROL_NAME, Control, write_control
from engramlog.api.settings import Settings
from engramlog.eventlog.errors import DirectoryLocked

HANDOVER_SECONDS_MAX = 15.0
"""Longest wait for a process that holds the directory without answering, as one that ends does."""
HANDOVER_POLL_S = 0.1


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
        """A connection to the node.

        Raises:
            ClientError: another process holds the directory and does not answer.
        """
        with self._lock:
            deadline = monotonic() + HANDOVER_SECONDS_MAX
            while self._own is None:
                running = running_node(self._settings.data_dir)
                if running is not None:
                    return running
                try:
                    self._own = self._embed()
                except DirectoryLocked as fault:  # its holder may be ending
                    if monotonic() >= deadline:
                        raise ClientError(f"{fault}, which does not answer commands") from fault
                    sleep(HANDOVER_POLL_S)
            return Client(self._own.url, self._own.token)

    def _embed(self) -> Control:
        node = open_node(self._settings)
        own = self._open.enter_context(embedded(node, self._settings, "begun"))
        path = self._settings.data_dir / CONTROL_NAME
        write_control(path, own)
        self._open.callback(path.unlink, missing_ok=True)
        return own
