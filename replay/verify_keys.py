"""Whether the stored idempotency keys are exactly those that events name.

A key without its row lets a repeated request write again.
"""

from msgspec import Struct

from engramlog.eventlog.engines.appending import KeyUse
from engramlog.eventlog.engines.storage_audit import Auditable
from engramlog.eventlog.event import Header

Name = tuple[str, str]
"""Actor and key."""


class Fault(Struct, frozen=True):
    """The first fault; position 0 if it is not at one event."""

    position: int
    stream: str
    stream_seq: int
    reason: str


class IdempotencyCheck:
    """Takes this node's events in order, and is queried after every page."""

    def __init__(self, storage: Auditable) -> None:
        self._storage = storage
        self._noted: list[tuple[int, Header]] = []
        self._open: dict[Name, KeyUse] = {}
        """Keys whose last event is still to come."""
        self._latest: dict[Name, int] = {}
        """Of these, the latest position that names the key."""
        self._found = 0

    def note(self, position: int, header: Header) -> None:
        """Record an event of this node that names a key."""
        self._noted.append((position, header))

    def page_fault(self) -> Fault | None:
        """The first event since the last call whose key has no row, or another's."""
        noted, self._noted = self._noted, []
        named = [(each.actor, each.idempotency_key or "") for _, each in noted]
        uses = self._storage.uses_of({name for name in named if name not in self._open})
        begun = self._open
        for (position, header), name in zip(noted, named, strict=True):
            use = begun.get(name)
            begins = use is None
            if use is None:
                use = uses.get(name)
                if use is not None and use.first_position <= use.last_position:
                    self._found += 1
                    begun[name] = use
            if (
                use is None
                or not use.first_position <= position <= use.last_position
                or (begins and position != use.first_position)
            ):
                reason = (
                    f"the row of idempotency key {name[1]!r} is missing"
                    if use is None
                    else _kept(name, use)
                )
                return Fault(position, header.stream, header.stream_seq, reason)
            self._latest[name] = position
        last = noted[-1][0] if noted else 0
        self._open = {name: use for name, use in begun.items() if use.last_position > last}
        for name in begun.keys() - self._open.keys():
            if self._latest.pop(name) != begun[name].last_position:
                return Fault(0, "", 0, _kept(name, begun[name]))
        return None

    def surplus_fault(self, position: int) -> Fault | None:
        """The fault of rows that no event names, after all events, up to ``position``."""
        for name, use in self._open.items():
            return Fault(0, "", 0, _kept(name, use))
        kept = self._storage.used_keys(position)
        if kept == self._found:
            return None
        return Fault(0, "", 0, f"{kept} idempotency keys are kept, events name {self._found}")


def _kept(name: Name, use: KeyUse) -> str:
    return (
        f"idempotency key {name[1]!r} is kept for positions {use.first_position} to "
        f"{use.last_position}, not for those of its events"
    )
