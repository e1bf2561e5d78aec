"""A node that stops while callers connect."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.worlds.live import LiveNode

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n"
EACH = 50
"""Connections of a caller: those of both fit into the queue of a listening socket."""


@pytest.mark.parametrize("data", [b"", REQUEST], ids=["silent", "asking"])
def test_a_stop_closes_every_connection(serve: Callable[..., LiveNode], data: bytes) -> None:
    for _ in range(5):
        live = serve()
        port = int(live.url.rsplit(":", 1)[1])
        first = threading.Event()
        with ThreadPoolExecutor(2) as callers:
            made = [callers.submit(connect, port, data, first) for _ in range(2)]
            assert first.wait(10)
            live.stop()  # fails if it waits for a silent connection
        assert all(ended(each) for each in made[0].result() + made[1].result())


def connect(port: int, data: bytes, first: threading.Event) -> list[socket.socket]:
    """Connect and send again and again, until the node listens no more."""
    made: list[socket.socket] = []
    for _ in range(EACH):
        try:
            made.append(socket.create_connection(("127.0.0.1", port), 10))
            made[-1].sendall(data)
        except OSError:
            break
        first.set()
    return made


def ended(sock: socket.socket) -> bool:
    """Whether the node closed the connection."""
    with sock:
        try:
            while sock.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
    return True
