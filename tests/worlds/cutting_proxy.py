"""A link that never carries more than so many bytes of one answer."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes connections on to ``url``, and closes one after ``most`` bytes of an answer. ``cuts``:
    how often it did."""

    def __init__(self, url: str, most: int) -> None:
        self.most = most
        self.cuts = 0
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            passed = [0]
            threading.Thread(target=self._ask, args=(near, far, passed), daemon=True).start()
            threading.Thread(target=self._answer, args=(far, near, passed), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket, passed: list[int]) -> None:
        with suppress(OSError):
            while data := near.recv(65_536):
                passed[0] = 0
                far.sendall(data)
        _end(far)

    def _answer(self, far: socket.socket, near: socket.socket, passed: list[int]) -> None:
        with suppress(OSError):
            while data := far.recv(65_536):
                left = self.most - passed[0]
                passed[0] += len(data)
                near.sendall(data[:left])
                if len(data) > left:
                    self.cuts += 1
                    break
        _end(near)
        _end(far)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def cutting(url: str, most: int) -> Generator[CuttingProxy]:
    proxy = CuttingProxy(url, most)
    try:
        yield proxy
    finally:
        proxy.close()
