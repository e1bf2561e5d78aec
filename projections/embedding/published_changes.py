"""What published events change for vectors: passed from the writer's thread to the worker's."""

import threading
from collections.abc import Sequence

from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import DecaySwept, FactErased, FactRetracted

_WHOLE = frozenset({DecaySwept, FactErased})
_RELEVANT = _WHOLE | {FactRetracted}


class Change(Struct):
    """Several groups of events.

    Attributes:
        retracted: the facts that they retract.
        erased: the facts that they erase.
        whole: whether any fact may have ended.
    """

    retracted: list[str]
    erased: list[str]
    whole: bool = False


class PublishedChanges:
    """A queue of one merged change. ``note`` is a follower of the reader; one thread takes."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._change: Change | None = None
        self._open = True

    def note(self, events: Sequence[Recorded]) -> None:
        """Add published events."""
        relevant = [event.payload for event in events if type(event.payload) in _RELEVANT]
        with self._condition:
            change = self._change = self._change or Change([], [])
            for payload in relevant:
                if isinstance(payload, FactRetracted):
                    change.retracted += payload.fact_ids
                elif isinstance(payload, FactErased):
                    change.erased += payload.fact_ids
            change.whole = change.whole or any(type(each) in _WHOLE for each in relevant)
            self._condition.notify_all()

    def take(self, timeout_seconds: float) -> Change | None:
        """Everything noted since the last call, waiting at most that long; None if nothing."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._change is not None or not self._open, timeout_seconds
            )
            change, self._change = self._change, None
            return change

    def put_back(self, change: Change) -> None:
        """Take this change again before later ones."""
        with self._condition:
            later = self._change or Change([], [])
            self._change = Change(
                change.retracted + later.retracted,
                change.erased + later.erased,
                change.whole or later.whole,
            )

    def close(self) -> None:
        """A waiting ``take`` returns. Idempotent."""
        with self._condition:
            self._open = False
            self._condition.notify_all()
