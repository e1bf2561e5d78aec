"""The feedback-loop rule: which scopes a session has read, so that writing there needs provenance.

State per (caller, session id), bounded and in memory; a restart drops it.
Source: wire 1.7.
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

SESSION_LENGTH_MAX = 128
SESSIONS_MAX = 20_000
"""Sessions to remember; the one unused for longest is dropped first."""


class Sessions:
    """Scopes read per (principal, session)."""

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._read: OrderedDict[tuple[str, str], set[str]] = OrderedDict()
        self._max = sessions_max
        self._lock = Lock()

    def note_read(self, principal: str, session: str, scopes: Iterable[str]) -> None:
        """Note that the session read facts of these scopes."""
        key = (principal, session)
        with self._lock:
            self._read.setdefault(key, set()).update(scopes)
            self._read.move_to_end(key)
            if len(self._read) > self._max:
                self._read.popitem(last=False)

    def has_read(self, principal: str, session: str, scope: str) -> bool:
        """Whether the session has read that scope."""
        return scope in self._read.get((principal, session), ())
