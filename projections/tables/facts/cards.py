"""The ``cards`` table: a row for every entity, scope and garden with a fact.

No table holds a card's text: it is a pure function of the facts at a Moment. The table finds the
entity behind a card's id. Sweeps, trust and declarations may change many cards at once and write
nothing here: the facts themselves decide whether a cached text is still valid.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha1
from uuid import UUID

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.authorization import OPEN_CLASS
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.erasing import Erased
from engramlog.projections.tables.projector import Projector

CARD_RELATION = "stigmem:memory:card"
"""Relation of the card as a fact (seed §20.4.1)."""
SUMMARY_RELATION = "stigmem:card:summary"
"""Relation under which a card travels in answers of recall and of the cards route."""
CARD_SOURCE = "system:stigmem:card-generator"
CARD_CONFIDENCE = 1.0
"""Confidence that the card exists, not that its text is right."""

_NAMESPACE = UUID("5a0f2c8e-8d0a-5d0c-9c39-3c1f0f8a7f11")

_ENTER = "INSERT OR IGNORE INTO cards (card_id, entity, scope, garden_id) VALUES (?,?,?,?)"
_HAS_FACT = """
SELECT 1 FROM fact_rows WHERE entity=? AND scope=? AND garden_id IS ? LIMIT 1
"""
_FIND = "SELECT entity, scope, garden_id FROM cards WHERE card_id=?"


class CardKey(Struct, frozen=True):
    """Names a card: an entity in one scope and at most one garden. Cards never mix scopes or
    gardens. ``ceiling``: the highest classification that the card shows; None for no limit."""

    entity: str
    scope: str
    garden: str | None = None
    ceiling: str | None = None

    def of(self, ceiling: int) -> "CardKey":
        """The card for readers with this ceiling: readers with different ceilings share no card."""
        if ceiling >= OPEN_CLASS:
            return self
        return CardKey(self.entity, self.scope, self.garden, str(ceiling))

    @property
    def card_id(self) -> str:
        """The id of the card as a fact: the same on every node and after every rebuild."""
        parts = (self.entity, self.scope, self.garden or "", self.ceiling or "")
        return _uuid5("\x00".join(parts))

    @property
    def vector_key(self) -> str:
        """The key of its vector in ``vec_facts`` (seed §20.4.2)."""
        parts = ("card", self.entity, self.scope, self.garden, self.ceiling)
        return ":".join(part for part in parts if part is not None)


class CardsProjector(Projector):
    """Rows of ``cards``."""

    name = "cards"
    version = 2
    schema = """
    CREATE TABLE cards (
        card_id TEXT PRIMARY KEY,
        entity TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"fact_asserted"})
    reads = frozenset({"facts"})

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        places = {
            (fact.entity, fact.scope, fact.garden_id)
            for event in events
            if isinstance(fact := event.payload, FactAsserted)
        }
        db.executemany(_ENTER, [(_card_id(*place), *place) for place in places])

    def refold(self, erased: Erased, db: apsw.Connection) -> None:
        """Delete a card with the last fact of its entity."""
        places = {(fact.entity, fact.scope, fact.garden_id) for fact in erased.touched}
        for place in places:
            if query_one(db, _HAS_FACT, place) is None:
                db.execute("DELETE FROM cards WHERE card_id=?", (_card_id(*place),))


def _uuid5(name: str) -> str:
    """``str(uuid5(_NAMESPACE, name))``, twice as fast: a batch may name many entities."""
    raw = bytearray(sha1(_NAMESPACE.bytes + name.encode(), usedforsecurity=False).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x50
    raw[8] = raw[8] & 0x3F | 0x80
    return id_text(bytes(raw))


@lru_cache(maxsize=16_384)
def _card_id(entity: str, scope: str, garden: str | None) -> str:
    return CardKey(entity, scope, garden).card_id


def find_card(db: apsw.Connection, card_id: str) -> CardKey | None:
    """The key behind a card's id; the caller applies the authorization."""
    found = query_one(db, _FIND, (card_id,))
    return None if found is None else CardKey(*found)
