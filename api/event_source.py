"""A peer's streams over HTTP, for the thread that replays it (``pulling.PeerSource``)."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import urlencode, urlsplit

import msgspec

from api.client import failure_of
from api.patience import Patience, PatientResponse, read_whole
from eventlog.signing import SignedHeads
from replay.federation.page import PAGE_BYTES_MAX, Page, PageFault, decode_page
from replay.federation.pulling import PeerUnreachable

STREAMS_PATH = "/v1/federation/streams"
EVENTS_PATH = "/v1/federation/events"
DIGESTS_PATH = "/v1/federation/digests"
HEADS_BYTES_MAX = 64 * 1024 * 1024
_PATIENCE = Patience()
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class HttpPeerSource:
    """One connection, kept open; each request carries a token of its own. Behind a full page the
    next is asked for at once, so that the peer reads it while this one is being taken in.

    ``wait_seconds``: how long the peer is to hold back heads that have not changed.
    """

    def __init__(self, url: str, token: Callable[[], str], patience: Patience = _PATIENCE) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _CONNECTIONS or not parts.hostname:
            raise PeerUnreachable(f"{url!r} is not an http:// or https:// URL")
        self.url = url.rstrip("/")
        self.wait_seconds = 0.0
        self._parts = parts
        self._token = token
        self._patience = patience
        self._connection: http.client.HTTPConnection | None = None
        self._seen = ""
        self._asked = ""
        self._closed = False

    def heads(self) -> SignedHeads:
        """See ``PeerSource``; waits for heads other than the last ones."""
        wait = self.wait_seconds if self._seen else 0.0
        query = {"seen": self._seen, "wait_s": wait}
        headers, body = self._get(STREAMS_PATH, query, HEADS_BYTES_MAX, wait)
        try:
            statement = msgspec.json.decode(body, type=SignedHeads)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            raise PageFault("malformed", f"the heads cannot be read: {fault}") from fault
        self._seen = headers.get("ETag", "")
        return statement

    def page(self, stream: str, after_seq: int, limit: int) -> Page | None:
        """See ``PeerSource``."""
        query = {"stream": stream, "after": after_seq, "limit": limit}
        _, body = self._get(EVENTS_PATH, query, PAGE_BYTES_MAX)
        if not body:
            return None
        page = decode_page(body)
        if len(page.events) == limit:
            self._ask_ahead({**query, "after": after_seq + limit})
        return page

    def digests(self) -> dict[str, str]:
        """What the peer's streams that we replay come to there, by stream."""
        _, body = self._get(DIGESTS_PATH, {}, HEADS_BYTES_MAX)
        try:
            return msgspec.json.decode(body, type=dict[str, dict[str, str]])["digests"]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as fault:
            raise PeerUnreachable(f"the digests cannot be read: {fault}") from fault

    def forget(self) -> None:
        """Ask for heads at once the next time, changed or not."""
        self._seen = ""

    def close(self) -> None:
        """End the connection, also under a request that waits. Idempotent."""
        self._closed = True
        self._drop()

    def _get(
        self, path: str, query: Mapping[str, object], most: int, waited_seconds: float = 0.0
    ) -> tuple[http.client.HTTPMessage, bytes]:
        if self._closed:
            raise PeerUnreachable("the source is closed")
        target = self._target(path, query)
        asked, self._asked = self._asked, ""
        if asked and asked != target:
            self._drop()  # its answer is of no use any more
        try:
            connection = self._open(waited_seconds)
            if asked != target:
                connection.request("GET", target, headers=self._headers())
            response = connection.getresponse()
            body = read_whole(response, most)
        except (OSError, http.client.HTTPException) as fault:
            self._drop()
            raise PeerUnreachable(f"cannot reach {self.url}: {fault}") from fault
        if response.status not in (http.client.OK, http.client.NO_CONTENT):
            raise self._refusal(response.status, body)
        return response.headers, body

    def _ask_ahead(self, query: Mapping[str, object]) -> None:
        """Send the request that will most likely come next; its answer waits until then."""
        target = self._target(EVENTS_PATH, query)
        try:
            self._open(0.0).request("GET", target, headers=self._headers())
            self._asked = target
        except (OSError, http.client.HTTPException):
            self._drop()  # whoever asks next finds out why

    def _target(self, path: str, query: Mapping[str, object]) -> str:
        return f"{self._parts.path.rstrip('/')}{path}?{urlencode(query)}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token()}"}

    def _open(self, waited_seconds: float) -> http.client.HTTPConnection:
        timeout = self._patience.silence_seconds
        if self._connection is None:
            assert self._parts.hostname is not None
            shape = _CONNECTIONS[self._parts.scheme]
            self._connection = shape(self._parts.hostname, self._parts.port, timeout=timeout)
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        self._connection.response_class = partial(  # type: ignore[assignment]  # makes one
            PatientResponse, patience=self._patience, waited_seconds=waited_seconds
        )
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._asked = ""
        if connection is not None:
            if connection.sock is not None:
                with suppress(OSError):  # wakes a thread that reads from it
                    connection.sock.shutdown(2)
            connection.close()

    def _refusal(self, status: int, body: bytes) -> Exception:
        try:
            failure = failure_of(status, msgspec.json.decode(body))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return PeerUnreachable(f"{self.url} answered {status}")
        return PeerUnreachable(f"{self.url} answered {status}: {failure}")
