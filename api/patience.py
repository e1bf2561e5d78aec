"""Answers of other nodes, read for only so long: a peer that sends slowly for ever holds nobody."""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPException, HTTPResponse

from msgspec import Struct

_READ_BYTES = 1 << 20
_TOO_LARGE = "the answer is larger than any may be"


class Patience(Struct, frozen=True):
    """How long an answer may take, beyond what the peer was asked to wait.

    ``silence_seconds`` without a byte end it; so does an average under
    ``bytes_per_second`` once these seconds are over, and ``whole_seconds`` altogether.
    """

    silence_seconds: float = 30.0
    whole_seconds: float = 120.0
    bytes_per_second: float = 4_096.0

    def deadline(self, began: float, received: int) -> float:
        """When an answer that began then, and of which so much came, is given up."""
        earned = self.silence_seconds + received / self.bytes_per_second
        return began + min(earned, self.whole_seconds)


class PatientResponse(HTTPResponse):
    """An answer whose every byte, headers too, has to come in time.

    ``waited_seconds``: for which the peer was asked to hold the answer back.
    """

    def __init__(
        self,
        sock: socket.socket,
        debuglevel: int = 0,
        method: str | None = None,
        url: str | None = None,
        *,
        patience: Patience,
        waited_seconds: float,
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        self.fp.close()
        raw = sock.makefile("rb", buffering=0)
        self.fp = io.BufferedReader(_Timed(sock, raw, patience, waited_seconds))


class _Timed(io.RawIOBase):
    """A socket's bytes until the deadline, which moves as they come."""

    def __init__(
        self, sock: socket.socket, raw: socket.SocketIO, patience: Patience, waited_seconds: float
    ) -> None:
        super().__init__()
        self._sock = sock
        self._raw = raw
        self._patience = patience
        self._began = time.monotonic() + waited_seconds
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # a buffer
        """Raises TimeoutError once patience is at its end."""
        now = time.monotonic()
        left = self._patience.deadline(self._began, self._received) - now
        if left <= 0:
            raise TimeoutError("the answer comes too slowly")
        waiting = max(0.0, self._began - now) + self._patience.silence_seconds
        self._sock.settimeout(min(left, waiting))
        count = self._raw.readinto(buffer) or 0
        self._received += count
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def read_whole(response: HTTPResponse, most: int) -> bytes:
    """An answer's body.

    Raises:
        HTTPException: it has over ``most`` bytes, or ends before its announced length.
        OSError: it did not come in time, or the connection broke.
    """
    announced = response.length
    if announced is None and not response.chunked:
        raise HTTPException("the answer does not say how long it is")
    if announced is not None:
        if announced > most:
            raise HTTPException(_TOO_LARGE)
        return response.read()  # raises IncompleteRead where it ends early
    data = bytearray()
    while chunk := response.read(_READ_BYTES):
        data += chunk
        if len(data) > most:
            raise HTTPException(_TOO_LARGE)
    return bytes(data)
