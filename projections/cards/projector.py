"""The ``cards`` table: which cards there are: one for every entity, scope and garden with a fact.

Their text is in no table: it is a pure function of the facts at a Moment. What is here finds
the entity behind a card's id. Sweeps, trust and declarations may touch any number of cards at
once and are not entered: whether a text is still good is judged by the facts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import apsw

from eventlog.event import Recorded
from projections.cards.key import CardKey
from projections.database import query, query_one
from projections.erasing import Erased

_ASSERTED = """
SELECT DISTINCT entity, scope, garden_id FROM facts WHERE from_position BETWEEN ? AND ?
"""
_ENTER = "INSERT OR IGNORE INTO cards (card_id, entity, scope, garden_id) VALUES (?,?,?,?)"
_HAS_FACT = """
SELECT 1 FROM facts WHERE entity=? AND scope=? AND garden_id IS ? LIMIT 1
"""
_FIND = "SELECT entity, scope, garden_id FROM cards WHERE card_id=?"


class CardsProjector:
    """Rows of ``cards``."""

    name = "cards"
    version = 2
    tables = ("cards",)
    schema = """
    CREATE TABLE cards (
        card_id TEXT PRIMARY KEY,
        entity TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = ""
    kinds = frozenset({"fact_asserted"})
    reads = frozenset({"facts"})

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        places = query(db, _ASSERTED, (events[0].position, events[-1].position))
        db.executemany(_ENTER, [(_card_id(*place), *place) for place in places])

    def refold(self, erased: Erased, db: apsw.Connection) -> None:
        """A card goes with the last fact it could be about."""
        places = {(fact.entity, fact.scope, fact.garden_id) for fact in erased.touched}
        for place in places:
            if query_one(db, _HAS_FACT, place) is None:
                db.execute("DELETE FROM cards WHERE card_id=?", (_card_id(*place),))


@lru_cache(maxsize=16_384)
def _card_id(entity: str, scope: str, garden: str | None) -> str:
    return CardKey(entity, scope, garden).card_id


def find_card(db: apsw.Connection, card_id: str) -> CardKey | None:
    """The key behind a card's id; apply the authorization yourself."""
    found = query_one(db, _FIND, (card_id,))
    return None if found is None else CardKey(*found)
