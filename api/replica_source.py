"""A primary's log over HTTP, for a replica's thread (``replay.replication.LogSource``)."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

import msgspec

from api.client import failure_of
from replay.replication.follower import PrimaryUnreachable
from replay.replication.page import PAGE_BYTES_MAX, Diverged, Page, decode_page

PATH = "/v1/replication/events"
ANSWER_SECONDS = 30.0
"""Beyond what was waited for."""
_READ_BYTES = 1 << 20
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class HttpLogSource:
    """One connection, kept open. ``close`` may come from another thread and ends a wait."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _CONNECTIONS or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// URL")
        self.url = url.rstrip("/")
        self._parts = parts
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> Page:
        """See ``LogSource``."""
        query = urlencode(
            {"after": after, "hash": after_hash.hex(), "limit": limit, "wait_s": wait_seconds}
        )
        target = f"{self._parts.path.rstrip('/')}{PATH}?{query}"
        try:
            connection = self._open(wait_seconds + ANSWER_SECONDS)
            connection.request("GET", target, headers=self._headers)
            response = connection.getresponse()
            body = _read(response)
        except (OSError, http.client.HTTPException) as fault:
            self._drop()
            raise PrimaryUnreachable(f"cannot reach {self.url}: {fault}") from fault
        if response.status != http.client.OK:
            raise self._refusal(response.status, body)
        return decode_page(body)

    def close(self) -> None:
        """End the connection, also under a request that waits. Idempotent."""
        with self._lock:
            self._closed = True
        self._drop()

    def _open(self, timeout_seconds: float) -> http.client.HTTPConnection:
        with self._lock:
            if self._closed:
                raise PrimaryUnreachable("the source is closed")
            connection = self._connection
            if connection is None:
                assert self._parts.hostname is not None
                shape = _CONNECTIONS[self._parts.scheme]
                connection = shape(self._parts.hostname, self._parts.port, timeout=timeout_seconds)
                self._connection = connection
            if connection.sock is not None:
                connection.sock.settimeout(timeout_seconds)
            return connection

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            if connection.sock is not None:
                with suppress(OSError):  # wakes a thread that reads from it
                    connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _refusal(self, status: int, body: bytes) -> Exception:
        try:
            failure = failure_of(status, msgspec.json.decode(body))
        except msgspec.DecodeError:
            return PrimaryUnreachable(f"{self.url} answered {status}")
        if failure.code == "replication_diverged":
            return Diverged(str(failure))
        return PrimaryUnreachable(f"{self.url} answered {status}: {failure}")


def _read(response: http.client.HTTPResponse) -> bytes:
    data = bytearray()
    while chunk := response.read(_READ_BYTES):
        data += chunk
        if len(data) > PAGE_BYTES_MAX:
            raise http.client.HTTPException("the answer is larger than any page may be")
    return bytes(data)
