"""What an erasure takes with it: the decision who may erase what, and the rows that go.

An event whose payload is gone projects as nothing, as if it had never been. So the rows of a
file that saw it must become those of one that did not: each projector names the statements
that take out what is keyed by the erased facts and events (``Erasing``), and one whose rows
mix several facts works out the touched keys again (``Refolding``). A rebuild meets only the
header and the ``fact_erased`` event, and gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, runtime_checkable

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_bytes
from engramlog.eventlog.kinds import FactErased
from engramlog.projections.tables.database import query

FACTS = "(SELECT value FROM json_each(:facts))"
"""In a statement of ``Erasing``: the ids of the erased facts."""
POSITIONS = "(SELECT value FROM json_each(:positions))"
"""In a statement of ``Erasing``: the positions of the erased events."""

EVENTS = "(SELECT value FROM json_each(:events))"
"""In a statement of ``Erasing``: the ids of the erased events."""

_TOUCHED = """
SELECT id, from_position, entity, relation, scope, garden_id FROM facts
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY from_position
"""


class Touched(Struct, frozen=True):
    """A fact that an erasure takes out of the tables."""

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
    """What one ``fact_erased`` event takes out.

    ``facts`` and ``events`` are ids, ``positions`` those of the erased events; ``touched`` are
    the facts that the tables still held. ``before`` gives the events at positions
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
        """Make the rows of the touched keys again, after the facts have gone."""
        ...


class History(Protocol):
    """What undoing an event's effects reads from the log."""

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]: ...
    def read(self, after: int = 0, limit: int = 1000) -> list[Recorded]: ...


def may_erase(eraser: str, fact_origin: str, *, local: bool, grants: Collection[str]) -> bool:
    """Whether an erasure that node ``eraser`` recorded takes a fact of ``fact_origin``.

    What is asked of this node itself may (``local``). A peer may erase what it stated; anything
    else needs the grant ``erase_foreign``, without which its event stays in the log, has no
    effect, and waits for the grant, or for an administrator to erase here.
    """
    return local or eraser == fact_origin or "erase_foreign" in grants


def erased_by(event: Recorded, db: apsw.Connection, history: History | None) -> Erased:
    """What a ``fact_erased`` event of this node takes out of these tables."""
    payload = event.payload
    assert isinstance(payload, FactErased)
    asked = msgspec.json.encode(payload.fact_ids).decode()
    touched = [Touched(*row) for row in query(db, _TOUCHED, (asked,))]
    found = {} if history is None else history.positions_of(event_ids(payload.events))
    positions = sorted({*found.values(), *(fact.position for fact in touched)})

    def before(wanted: Iterable[int]) -> list[Recorded]:
        assert history is not None, "an erasure needs the log to rebuild rows"
        gone = set(positions)
        chosen = sorted({p for p in wanted if 0 < p < event.position} - gone)
        return [each for p in chosen for each in history.read(p - 1, 1) if each.payload is not None]

    return Erased(payload.fact_ids, payload.events, positions, touched, before)


def event_ids(texts: Iterable[str]) -> list[bytes]:
    """The ids that an erasure names, but for what is none."""
    ids: list[bytes] = []
    for text in texts:
        try:
            ids.append(id_bytes(text))
        except ValueError:  # a peer's event may name anything
            continue
    return ids
