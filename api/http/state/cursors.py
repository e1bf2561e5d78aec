"""Opaque page cursors: signed, for one query, at a fixed moment.

A cursor grants no right: the node authorises each page again. Its text is base64url of a
MessagePack body and a 16-byte HMAC-SHA256; after an alteration it answers ``invalid_cursor``.
"""

import hashlib
import hmac
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from engramlog.api.http.errors import coded
from engramlog.projections.moment import Moment
from engramlog.projections.rights.capability_token import from_url_text, to_url_text

CURSOR_LENGTH_MAX = 4096
_MAC_BYTES = 16


class Cursor(Struct, frozen=True, array_like=True):
    """The state of a walk.

    Attributes:
        kind: the route it belongs to.
        digest: of the walk's filters.
        position: transaction time of the walk.
        instant_us: clock of the walk, microseconds.
        expires_at_us: after this the walk must start again; 0 for never.
        place: sort key of the last item delivered.
        since: the walk delivers only events after this position.
        tail: whether the walk's end returns a cursor to resume from.
    """

    kind: str
    digest: bytes
    position: int
    instant_us: int
    expires_at_us: int
    place: tuple[int | str, ...] = ()
    since: int = 0
    tail: bool = False

    def moment(self, valid_at_us: int | None = None) -> Moment:
        return Moment(self.position, self.instant_us, valid_at_us)


def filters_digest(filters: Mapping[str, object]) -> bytes:
    """16 bytes that differ if two queries differ."""
    return hashlib.sha256(msgspec.json.encode(sorted(filters.items()))).digest()[:16]


class CursorSealer:
    """Makes and opens cursors with the node's secret.

    ``ttl_us``: a page cursor's lifetime, microseconds.
    """

    def __init__(self, secret: bytes, ttl_us: int) -> None:
        self._secret = secret
        self._ttl_us = ttl_us
        self._decoder = msgspec.msgpack.Decoder(Cursor)

    def expiry(self, now_us: int) -> int:
        """When a cursor made now expires."""
        return now_us + self._ttl_us

    def seal(self, cursor: Cursor) -> str:
        """The cursor's text."""
        body = msgspec.msgpack.encode(cursor)
        return to_url_text(self._mac(body) + body)

    def open(self, text: str, *, kind: str, digest: bytes, now_us: int) -> Cursor:
        """The cursor behind a text. Raises ApiError ``invalid_cursor`` (altered, foreign, or for
        another query) or ``cursor_expired``."""
        cursor = self._decoded(text)
        if cursor is None or cursor.kind != kind or cursor.digest != digest:
            raise coded("invalid_cursor", "the cursor does not belong to this query")
        if cursor.expires_at_us and cursor.expires_at_us <= now_us:
            raise coded("cursor_expired", "the cursor has expired; start again without one")
        return cursor

    def position(self, text: str) -> int:
        """The position that a cursor's walk needs; 0 for one that cannot be opened."""
        cursor = self._decoded(text)
        return 0 if cursor is None else cursor.position

    def _decoded(self, text: str) -> Cursor | None:
        if len(text) > CURSOR_LENGTH_MAX:
            return None
        try:
            raw = from_url_text(text)
        except ValueError:
            return None
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            return None
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError:
            return None

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._secret, body, hashlib.sha256).digest()[:_MAC_BYTES]
