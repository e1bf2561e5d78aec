"""The ``cards`` table: which cards there are, and the last event that named one of their facts.

Their text is in no table: it is a pure function of the facts at a Moment. What is here finds
the entity behind a card's id. Sweeps, trust and declarations may touch any number of cards at
once and are not entered: whether a text is still good is judged by the facts themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import apsw

from eventlog.event import Recorded
from eventlog.kinds import ConflictResolved, FactAsserted, FactRetracted
from projections.cards.key import CardKey
from projections.database import query, query_one

Place = tuple[str, str, str | None]
"""Entity, scope and garden."""

_ASSERTED = """
SELECT entity, scope, garden_id, max(from_position) FROM facts
WHERE from_position BETWEEN ? AND ? GROUP BY entity, scope, garden_id
"""
_OF_FACT = "SELECT entity, scope, garden_id FROM facts WHERE id=?"
_TOUCH = """
INSERT INTO cards (card_id, entity, scope, garden_id, touched_position) VALUES (?,?,?,?,?)
ON CONFLICT DO UPDATE SET touched_position = max(touched_position, excluded.touched_position)
"""
_FIND = "SELECT entity, scope, garden_id FROM cards WHERE card_id=?"


class CardsProjector:
    """Rows of ``cards``."""

    name = "cards"
    version = 1
    tables = ("cards",)
    schema = """
    CREATE TABLE cards (
        card_id TEXT PRIMARY KEY,
        entity TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT,
        touched_position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = ""
    kinds = frozenset({"fact_asserted", "fact_retracted", "conflict_resolved"})
    reads = frozenset({"facts"})

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        touched: dict[Place, int] = {}
        asserted = [e.position for e in events if isinstance(e.payload, FactAsserted)]
        if asserted:
            for *place, position in query(db, _ASSERTED, (asserted[0], asserted[-1])):
                touched[place[0], place[1], place[2]] = position
        for event in events:
            for fact in _named(event):
                for entity, scope, garden in query(db, _OF_FACT, (fact,)):
                    place = (entity, scope, garden)
                    touched[place] = max(touched.get(place, 0), event.position)
        db.executemany(
            _TOUCH,
            [(_card_id(*place), *place, position) for place, position in touched.items()],
        )


def _named(event: Recorded) -> Iterable[str]:
    payload = event.payload
    if isinstance(payload, FactRetracted):
        return payload.fact_ids
    if isinstance(payload, ConflictResolved):
        return (payload.winner_id, *payload.loser_ids)
    return ()


@lru_cache(maxsize=16_384)
def _card_id(entity: str, scope: str, garden: str | None) -> str:
    return CardKey(entity, scope, garden).card_id


def find_card(db: apsw.Connection, card_id: str) -> CardKey | None:
    """The key behind a card's id; apply the authorization yourself."""
    found = query_one(db, _FIND, (card_id,))
    return None if found is None else CardKey(*found)
