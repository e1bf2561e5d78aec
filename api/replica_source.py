"""A primary's log and snapshots over HTTP, for a replica's thread (``LogSource`` and
``SnapshotSource`` of ``replay.replication``)."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlencode, urlsplit

import msgspec

from api.client import failure_of
from replay.replication.follower import PrimaryUnreachable
from replay.replication.page import PAGE_BYTES_MAX, Diverged, Page, decode_page
from replay.snapshot import Snapshot, decode_snapshot

PATH = "/v1/replication/events"
SNAPSHOTS_PATH = "/v1/replication/snapshots"
SNAPSHOTS_BYTES_MAX = 16 * 1024 * 1024
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
        with self._reaching():
            response = self._ask(f"{PATH}?{query}", wait_seconds + ANSWER_SECONDS)
            body = _read(response)
        if response.status != http.client.OK:
            raise self._refusal(response.status, body)
        return decode_page(body)

    def documents(self) -> list[Snapshot]:
        """See ``SnapshotSource``. A primary of an older release has none."""
        with self._reaching():
            response = self._ask(SNAPSHOTS_PATH, ANSWER_SECONDS)
            body = _read(response, SNAPSHOTS_BYTES_MAX)
        if response.status == http.client.NOT_FOUND:
            return []
        if response.status != http.client.OK:
            raise self._refusal(response.status, body)
        return [decode_snapshot(line) for line in body.splitlines()]

    def contents(self, position: int) -> Iterator[bytes]:
        """See ``SnapshotSource``."""
        with self._reaching():
            response = self._ask(f"{SNAPSHOTS_PATH}/{position}", ANSWER_SECONDS)
            if response.status != http.client.OK:
                raise self._refusal(response.status, _read(response))
        while part := self._part(response):
            yield part

    def _part(self, response: http.client.HTTPResponse) -> bytes:
        with self._reaching():
            return response.read(_READ_BYTES)

    @contextmanager
    def _reaching(self) -> Generator[None]:
        """What fails on the way means that the primary cannot be reached now."""
        try:
            yield
        except (OSError, http.client.HTTPException) as fault:
            self._drop()
            raise PrimaryUnreachable(f"cannot reach {self.url}: {fault}") from fault

    def _ask(self, path: str, timeout_seconds: float) -> http.client.HTTPResponse:
        connection = self._open(timeout_seconds)
        connection.request("GET", self._parts.path.rstrip("/") + path, headers=self._headers)
        return connection.getresponse()

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


def _read(response: http.client.HTTPResponse, most: int = PAGE_BYTES_MAX) -> bytes:
    data = bytearray()
    while chunk := response.read(_READ_BYTES):
        data += chunk
        if len(data) > most:
            raise http.client.HTTPException("the answer is larger than any page may be")
    return bytes(data)
