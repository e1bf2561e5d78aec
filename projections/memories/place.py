"""The place of a memory: user, session and agent, and its scope or garden.

Every look-up compares columns for equality. The encoded key is derived from them, for clients that
scan by prefix; no look-up here uses it.
"""

import unicodedata
from urllib.parse import quote

from msgspec import Struct

from engramlog.eventlog.event import fact_partition
from engramlog.projections.text.normal_forms import normal_form

PART_BYTES_MAX = 256


class MemoryScopeError(ValueError):
    """A user, session or agent name is invalid. ``field`` names it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


class MemoryPlace(Struct, frozen=True):
    """The place of one owner's facts. Facts of different places never replace each other."""

    user: str
    agent: str
    scope: str
    garden_id: str | None = None

    @property
    def partition(self) -> str:
        """The partition of these facts' stream, which is also the unit of reading rights."""
        return fact_partition(self.scope, self.garden_id)


def name_part(field: str, text: str) -> str:
    """``text`` in stored form (NFC). Raises MemoryScopeError."""
    # A letter of NFC is at most four before: a longer text, which takes longer, is too long anyway.
    normal = normal_form("NFC", text[: 4 * PART_BYTES_MAX + 1])
    if not normal:
        raise MemoryScopeError(field, "must not be empty")
    if len(normal.encode()) > PART_BYTES_MAX:
        raise MemoryScopeError(field, f"must have at most {PART_BYTES_MAX} bytes")
    if any(unicodedata.category(letter) == "Cc" for letter in normal):
        raise MemoryScopeError(field, "must not hold control characters")
    return normal


def scope_key(user: str, session: str, agent: str) -> str:
    """``/user/Alice/session/S1/agent/rag/``: each part percent-encoded, so no name can hold a
    separator, and ended by one, so no key is a prefix of another user's."""
    parts = (("user", user), ("session", session), ("agent", agent))
    return "".join(f"/{label}/{quote(text, safe='')}" for label, text in parts) + "/"
