"""Which card: an entity in one scope and at most one garden. Cards never mix two of them."""

from __future__ import annotations

from uuid import UUID, uuid5

from msgspec import Struct

from projections.authorization import OPEN_CLASS

CARD_RELATION = "stigmem:memory:card"
"""Relation of the card as a fact (seed §20.4.1)."""
SUMMARY_RELATION = "stigmem:card:summary"
"""Relation under which a card travels in answers of recall and of the cards route."""
CARD_SOURCE = "system:stigmem:card-generator"
CARD_CONFIDENCE = 1.0
"""That the card exists, not that what it says is right."""

_NAMESPACE = UUID("5a0f2c8e-8d0a-5d0c-9c39-3c1f0f8a7f11")


class CardKey(Struct, frozen=True):
    """``ceiling`` is the classification up to which facts are shown; None where none is set."""

    entity: str
    scope: str
    garden: str | None = None
    ceiling: str | None = None

    def of(self, ceiling: int) -> CardKey:
        """The card for readers of this ceiling: those who see less share none with others."""
        if ceiling >= OPEN_CLASS:
            return self
        return CardKey(self.entity, self.scope, self.garden, str(ceiling))

    @property
    def card_id(self) -> str:
        """The id of the card as a fact: the same on every node and after every rebuild."""
        parts = (self.entity, self.scope, self.garden or "", self.ceiling or "")
        return str(uuid5(_NAMESPACE, "\x00".join(parts)))

    @property
    def vector_key(self) -> str:
        """The key of its vector in ``vec_facts`` (seed §20.4.2)."""
        parts = ("card", self.entity, self.scope, self.garden, self.ceiling)
        return ":".join(part for part in parts if part is not None)
