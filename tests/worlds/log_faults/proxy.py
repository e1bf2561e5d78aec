"""A TCP proxy that can drop bytes in one direction or both, or reset connections."""

import contextlib
import socket
import threading
from typing import Literal

Cut = Literal["to server", "to client", "both"]


class Proxy:
    """Listens on loopback and passes bytes to one port; ``cut`` drops them."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._cut: frozenset[str] = frozenset()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, which: Cut) -> None:
        """Drop bytes from now on, like a broken network."""
        self._cut = frozenset(("to server", "to client") if which == "both" else (which,))

    def heal(self) -> None:
        """Pass bytes again. Connections that lost some are reset, since they have a gap."""
        if self._cut:
            self._cut = frozenset()
            self.reset()

    def reset(self) -> None:
        """End every connection."""
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.reset()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=1)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self._open |= {client, server}
            threading.Thread(target=self._join, args=(client, server), daemon=True).start()

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            back = threading.Thread(
                target=self._pass, args=(server, client, "to client"), daemon=True
            )
            back.start()
            self._pass(client, server, "to server")
            back.join()
            self._open -= {client, server}

    def _pass(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if way not in self._cut:
                    sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
