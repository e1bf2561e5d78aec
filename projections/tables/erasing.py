"""Erasing: who may erase which facts, and which rows an erasure removes.

An event without its payload projects as nothing. After an erasure, the rows must equal those of a
file that never saw the payload. Each projector lists the statements that delete rows of the erased
facts and events (``Projector.erasing``). A projector whose rows combine several facts computes the
touched keys again (``Refolding``). A rebuild meets only the header and the ``fact_erased`` event,
and gives the same rows.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol, runtime_checkable

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import event_ids_of
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import ReadableLog, read_at
from engramlog.projections.tables.database import json_list, query

FACTS = "(SELECT value FROM json_each(:facts))"
"""In a statement of ``Projector.erasing``: the ids of the erased facts."""
POSITIONS = "(SELECT value FROM json_each(:positions))"
"""In a statement of ``Projector.erasing``: the positions of the erased events."""

EVENTS = "(SELECT value FROM json_each(:events))"
"""In a statement of ``Projector.erasing``: the ids of the erased events."""

_TOUCHED = """
SELECT id, from_position, entity, relation, scope, garden_id FROM fact_rows
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY from_position
"""


class Touched(Struct, frozen=True):
    """A fact that an erasure removes from the tables."""

    id: str
    position: int
    entity: str
    relation: str
    scope: str
    garden_id: str | None

    @property
    def key(self) -> tuple[str, str, str, str | None]:
        return self.entity, self.relation, self.scope, self.garden_id


class Erased(Struct, frozen=True):
    """What one ``fact_erased`` event removes. ``facts`` and ``events`` are ids, ``positions`` those
    of the erased events. ``touched``: the facts that the tables still held. ``before`` returns the
    events at positions without this erasure."""

    facts: list[str]
    events: list[str]
    positions: list[int]
    touched: list[Touched]
    before: Callable[[Iterable[int]], list[Recorded]]

    @property
    def bindings(self) -> dict[str, str]:
        named = {"facts": self.facts, "events": self.events, "positions": self.positions}
        return {name: json_list(values) for name, values in named.items()}


@runtime_checkable
class Refolding(Protocol):
    """A projector with rows that several facts made together."""

    def refold(self, erased: Erased, db: apsw.Connection) -> None:
        """Compute the rows of the touched keys again, after the facts are gone."""
        ...


def events_at(history: ReadableLog, positions: Iterable[int]) -> Iterator[Recorded]:
    """The events at positions, in order, without those erased."""
    return (event for event in read_at(history, positions) if event.payload is not None)


def may_erase(eraser: str, fact_origin: str, *, local: bool, grants: Collection[str]) -> bool:
    """Whether an erasure by node ``eraser`` may erase a fact of ``fact_origin``.

    Requests to this node itself may (``local``). A peer may erase facts that it stated. For others
    it needs the grant ``erase_foreign``. Without the grant its event stays in the log without
    effect, until the grant comes or an administrator erases the fact here.
    """
    return local or eraser == fact_origin or "erase_foreign" in grants


def erased_by(event: Recorded, db: apsw.Connection, history: ReadableLog | None) -> Erased:
    """What a ``fact_erased`` event of this node removes from these tables."""
    payload = event.payload
    assert isinstance(payload, FactErased)
    touched = [Touched(*row) for row in query(db, _TOUCHED, (json_list(payload.fact_ids),))]
    found = {} if history is None else history.positions_of(event_ids_of(payload.events))
    positions = sorted({*found.values(), *(fact.position for fact in touched)})

    def before(wanted: Iterable[int]) -> list[Recorded]:
        assert history is not None, "an erasure needs the log to rebuild rows"
        gone = set(positions)
        return [*events_at(history, {p for p in wanted if p < event.position} - gone)]

    return Erased(payload.fact_ids, payload.events, positions, touched, before)
