"""A card in the shape of a stored fact, for answers made of facts."""

from collections.abc import Iterable

import msgspec

from engramlog.eventlog.kinds import Parent
from engramlog.projections.cards.content import Card
from engramlog.projections.tables.facts.cards import (
    CARD_CONFIDENCE,
    CARD_RELATION,
    CARD_SOURCE,
    SUMMARY_RELATION,
)
from engramlog.projections.tables.facts.fact_rows import FactRow

_CID_PREFIX = "sha256:"
_encode = msgspec.json.Encoder().encode


def fact_of_card(card: Card) -> FactRow:
    """The card as the seed's fact (§20.4.1): its Markdown, derived from the shown facts."""
    parents = [
        Parent(hash=fact.cid.removeprefix(_CID_PREFIX), fact_id=fact.id)
        for fact in card.shown
        if fact.cid
    ]
    return _row(card, CARD_RELATION, card.markdown, _encode(parents).decode())


def summary_of_card(card: Card, parents: Iterable[Parent]) -> FactRow:
    """The card that a recall shows for an entity's facts (wire 6.2), from their ``parents``."""
    return _row(card, SUMMARY_RELATION, card.summary, _encode(list(parents)).decode())


def _row(card: Card, relation: str, text: str, parents_json: str) -> FactRow:
    key = card.key
    return FactRow(
        from_position=card.position,
        id=key.card_id,
        entity=key.entity,
        relation=relation,
        value_type="text",
        value_v=text,
        interpret_as="content",
        source=CARD_SOURCE,
        scope=key.scope,
        garden_id=key.garden,
        base_confidence=CARD_CONFIDENCE,
        valid_from=None,
        valid_until=None,
        hlc=card.hlc,
        recorded_at=card.recorded_at,
        cid="",
        parents_json=parents_json,
        write_mode="summarize_with_provenance",
        actor=CARD_SOURCE,
        origin="",
        received_from=None,
    )
