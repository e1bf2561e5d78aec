"""What an erasure takes with it: the decision who may erase what, and the rows that go.

An event whose payload is gone projects as nothing, as if it had never been. So the rows of a
file that saw it must become those of one that did not: each projector names the statements
that take out what is keyed by the erased facts and events (``Erasing``), and one whose rows
mix several facts works out the touched keys anew (``Refolding``). A rebuild meets only the
header and the ``fact_erased`` event, and comes to the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, runtime_checkable

import apsw
import msgspec
from msgspec import Struct

from eventlog.event import Recorded
from eventlog.identifiers import id_bytes
from eventlog.kinds import FactErased
from projections.database import query

FACTS = "(SELECT value FROM json_each(:facts))"
"""In a statement of ``Erasing``: the ids of the erased facts."""
POSITIONS = "(SELECT value FROM json_each(:positions))"
"""In a statement of ``Erasing``: the positions of the erased events."""

EVENTS = "(SELECT value FROM json_each(:events))"
"""In a statement of ``Erasing``: the ids of the erased events."""

_TOUCHED = """
SELECT id, from_position, origin, entity, relation, scope, garden_id FROM facts
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY from_position
"""


class Touched(Struct, frozen=True):
    """A fact that an erasure takes out of the tables."""

    id: str
    position: int
    origin: str
    entity: str
    relation: str
    scope: str
    garden_id: str | None

    @property
    def key(self) -> tuple[str, str, str, str | None]:
        return self.entity, self.relation, self.scope, self.garden_id


class Erased(Struct, frozen=True):
    """What one ``fact_erased`` event takes out.

    ``facts`` and ``events`` are ids, ``positions`` those of the erased events; ``touched`` are
    the facts that the tables still held. ``before`` gives the events at positions as they stand
    without it.
    """

    facts: list[str]
    events: list[str]
    positions: list[int]
    touched: list[Touched]
    before: Callable[[Iterable[int]], list[Recorded]]

    @property
    def bindings(self) -> dict[str, str]:
        return {
            "facts": msgspec.json.encode(self.facts).decode(),
            "events": msgspec.json.encode(self.events).decode(),
            "positions": msgspec.json.encode(self.positions).decode(),
        }


@runtime_checkable
class Erasing(Protocol):
    """A projector with rows keyed by a fact's id or an event's position."""

    @property
    def erasing(self) -> tuple[str, ...]:
        """Statements over ``FACTS``, ``EVENTS`` and ``POSITIONS`` that delete its rows."""
        ...


@runtime_checkable
class Refolding(Protocol):
    """A projector with rows that several facts made together."""

    def refold(self, erased: Erased, db: apsw.Connection) -> None:
        """Make the rows of the touched keys anew, after the facts have gone."""
        ...


class History(Protocol):
    """What is asked of the log to take an event's effects back."""

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]: ...
    def read(self, after: int = 0, limit: int = 1000) -> list[Recorded]: ...


def may_erase(eraser: str, fact_origin: str, *, local: bool, grants: Collection[str]) -> bool:
    """Whether an erasure that node ``eraser`` recorded takes a fact of ``fact_origin``.

    What this node recorded itself was decided when it was asked for (``local``). A peer may
    erase what it stated; anything else needs the grant ``erase_foreign``, without which the
    event stays in the log, has no effect, and waits for an administrator to erase here.
    """
    return local or eraser == fact_origin or "erase_foreign" in grants


def erased_by(
    event: Recorded, db: apsw.Connection, history: History | None, grants: Collection[str]
) -> Erased:
    """What a ``fact_erased`` event takes out of these tables."""
    payload = event.payload
    assert isinstance(payload, FactErased)
    asked = msgspec.json.encode(payload.fact_ids).decode()
    held = [Touched(*row) for row in query(db, _TOUCHED, (asked,))]
    refused = {
        fact.id
        for fact in held
        if not may_erase(event.header.origin, fact.origin, local=event.peer is None, grants=grants)
    }
    touched = [fact for fact in held if fact.id not in refused]
    named = [] if history is None else _ids(payload.events)
    found = {} if history is None else history.positions_of(named)
    kept = {fact.position for fact in held if fact.id in refused}
    positions = sorted({*found.values(), *(fact.position for fact in touched)} - kept)

    def before(wanted: Iterable[int]) -> list[Recorded]:
        assert history is not None, "an erasure needs the log to make rows anew"
        gone = set(positions)
        chosen = sorted({p for p in wanted if 0 < p < event.position} - gone)
        return [each for p in chosen for each in history.read(p - 1, 1) if each.payload is not None]

    facts = [fact for fact in payload.fact_ids if fact not in refused]
    events = payload.events if not refused else []
    return Erased(facts, events, positions, touched, before)


def facts_gone(db: apsw.Connection, fact_ids: Collection[str]) -> set[str]:
    """Those of the facts that have no row."""
    asked = msgspec.json.encode(list(fact_ids)).decode()
    sql = "SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?))"
    return set(fact_ids) - {fact for (fact,) in query(db, sql, (asked,))}


def _ids(texts: Iterable[str]) -> list[bytes]:
    ids: list[bytes] = []
    for text in texts:
        try:
            ids.append(id_bytes(text))
        except ValueError:  # a peer's event may name anything
            continue
    return ids
