"""Time-ordered identifiers (UUIDv7, RFC 9562) as 16 bytes or the usual text."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from uuid import UUID


class IdentifierSource:
    """Issues UUIDv7 values that increase strictly within one process.

    ``entropy`` is a parameter so that tests can be deterministic.
    """

    _BLOCK = 64

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._entropy = entropy
        self._pool = b""
        self._taken = self._BLOCK
        self._last_ms = 0
        self._counter = 0

    def _random(self) -> int:
        if self._taken >= self._BLOCK:
            self._pool = self._entropy(8 * self._BLOCK)
            self._taken = 0
        start = self._taken * 8
        self._taken += 1
        return int.from_bytes(self._pool[start : start + 8], "big")

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
        high = (self._last_ms & 0xFFFFFFFFFFFF) << 16 | 0x7000 | self._counter
        low = self._random() & 0x3FFFFFFFFFFFFFFF | 0x8000000000000000
        return (high << 64 | low).to_bytes(16, "big")


@lru_cache(maxsize=65_536)
def id_text(raw: bytes) -> str:
    """``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`` for 16 bytes."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_bytes(text: str) -> bytes:
    """The 16 bytes of a textual UUID. Raises ValueError on anything else."""
    return UUID(text).bytes
