"""Identifiers of events: 16 bytes in order of time that name their origin (UUIDv8, RFC 9562).

48 bits of milliseconds, 12 of a counter and 30 random ones are as in UUIDv7. The last four bytes
are those of a hash of the origin and the bytes before them. So a peer cannot reuse another node's
event id: the id would not match its origin (``is_foreign``). Ids of release 0.1.0 are UUIDv7 and
name no origin.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from uuid import UUID

_MARK = b"engramlog/event-id/1\n"
_MARK_FROM = 12
"""The first byte of the origin's mark."""
_VERSION_BYTE, _VARIANT_BYTE = 6, 8


class IdentifierSource:
    """Issues ids of one origin that increase strictly within one process. ``entropy`` is a
    parameter so that tests are deterministic."""

    _BLOCK = 64
    _WORDS = Struct(f">{_BLOCK}Q")

    def __init__(self, origin: str, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._entropy = entropy
        self._origin = sha256(_MARK + origin.encode())
        self._pool: tuple[int, ...] = ()
        self._taken = self._BLOCK
        self._last_ms = 0
        self._counter = 0

    def _random(self) -> int:
        taken = self._taken
        if taken == self._BLOCK:
            self._pool = self._WORDS.unpack(self._entropy(self._WORDS.size))
            taken = 0
        self._taken = taken + 1
        return self._pool[taken]

    def next(self, now_us: int) -> bytes:
        """A new identifier for wall time ``now_us``."""
        now_ms = now_us // 1000
        if now_ms > self._last_ms:
            self._last_ms = now_ms
            self._counter = self._random() & 0x7FF
        else:
            self._counter += 1
            if self._counter > 0xFFF:
                self._last_ms += 1
                self._counter = 0
        high = (self._last_ms & 0xFFFFFFFFFFFF) << 16 | 0x8000 | self._counter
        low = self._random() & 0x3FFFFFFF | 0x80000000
        start = (high << 32 | low).to_bytes(_MARK_FROM, "big")
        mark = self._origin.copy()
        mark.update(start)
        return start + mark.digest()[: 16 - _MARK_FROM]


def is_foreign(event_id: bytes, origin: str) -> bool:
    """Whether an event's id names another origin than ``origin``; False if it names none."""
    if event_id[_VERSION_BYTE] >> 4 != 8 or event_id[_VARIANT_BYTE] >> 6 != 2:
        return False
    mark = sha256(_MARK + origin.encode() + event_id[:_MARK_FROM]).digest()
    return event_id[_MARK_FROM:] != mark[: 16 - _MARK_FROM]


@lru_cache(maxsize=65_536)
def id_text(raw: bytes) -> str:
    """``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`` for 16 bytes."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_bytes(text: str) -> bytes:
    """The 16 bytes of a textual UUID. Raises ValueError on anything else."""
    return UUID(text).bytes


def event_ids_of(texts: Iterable[str]) -> list[bytes]:
    """The valid event ids that an erasure names; others are skipped."""
    ids: list[bytes] = []
    for text in texts:
        with suppress(ValueError):  # a peer's event may hold any text
            ids.append(id_bytes(text))
    return ids
