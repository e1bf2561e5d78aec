"""Kept-alive connections to one host, with a deadline over a whole exchange."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, RemoteDisconnected
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from projections.embedding.errors import UnknownModel

ANSWER_BYTES_MAX = 256 * 1024 * 1024
READ_BYTES = 256 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Reply(Struct, frozen=True):
    """An HTTP answer."""

    status: int
    body: bytes
    retry_after: str | None


class Connections:
    """A pool of idle connections; each exchange takes one or opens one."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        monotonic: Callable[[], float],
        *,
        secret: bool,
    ) -> None:
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise UnknownModel(f"{base_url!r} is not an http or https URL")
        if secret and url.scheme == "http" and url.hostname not in LOOPBACK:
            raise UnknownModel(f"{base_url!r} would send the API key unencrypted; use https")
        self.host = url.netloc.rpartition("@")[2]
        self._url = url
        self._headers = dict(headers)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []

    def post(self, path: str, content: bytes, timeout_seconds: float) -> Reply:
        """Send and receive. Raises OSError (TimeoutError after ``timeout_seconds``) or
        HTTPException."""
        deadline = self._monotonic() + timeout_seconds
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._exchange(connection, path, content, deadline)
            except (RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # the host closed it while it lay idle: a new one decides
        return self._exchange(self._open(timeout_seconds), path, content, deadline)

    def _exchange(
        self, connection: HTTPConnection, path: str, content: bytes, deadline: float
    ) -> Reply:
        try:
            self._limit(connection, deadline)
            target = self._url.path.rstrip("/") + path
            connection.request("POST", target, body=content, headers=self._headers)
            self._limit(connection, deadline)
            response = connection.getresponse()
            body = self._read(connection, response, deadline)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return Reply(response.status, body, response.getheader("Retry-After"))

    def _read(self, connection: HTTPConnection, response: HTTPResponse, deadline: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(READ_BYTES):
            parts.append(part)
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise OSError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
            self._limit(connection, deadline)
        if response.length:
            raise OSError(f"the answer ends {response.length} bytes early")
        # Python before 3.12 leaves a response open whose last byte was read by ``read1``.
        response.close()
        return b"".join(parts)

    def _limit(self, connection: HTTPConnection, deadline: float) -> None:
        """No operation on the socket outlasts the deadline of the exchange."""
        left = deadline - self._monotonic()
        if left <= 0:
            raise TimeoutError("no complete answer in time")
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)

    def _open(self, timeout_seconds: float) -> HTTPConnection:
        url = self._url
        host = url.hostname or ""
        if url.scheme == "http":
            return HTTPConnection(host, url.port, timeout=timeout_seconds)
        proxy = urlsplit(getproxies().get("https", ""))
        if not proxy.hostname or proxy_bypass(host):
            return HTTPSConnection(host, url.port, timeout=timeout_seconds)
        connection = HTTPSConnection(proxy.hostname, proxy.port, timeout=timeout_seconds)
        headers: dict[str, str] = {}
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            headers["Proxy-Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        connection.set_tunnel(host, url.port, headers)
        return connection

    def close(self) -> None:
        """Close what lies idle. Idempotent."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
