"""Memory cards on the wire: as an answer, in a recall, and as facts."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from engramlog.api.answers.fact_list import ListFilters
from engramlog.api.answers.fact_record import FactRecord, MomentRecord, Warnings
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.sanitizer_modes import Mode, for_model
from engramlog.api.answers.wire_facts import Volatile, record_of
from engramlog.api.commands.request_context import ReadingContext, RequestContext
from engramlog.api.schemas.facts import MomentQuery
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.generator import card_at
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.cards.rows import fact_of_card
from engramlog.projections.cards.source import CardSource, PastCards, Served
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.facts.cards import (
    CARD_CONFIDENCE,
    CARD_SOURCE,
    CardKey,
    find_card,
)
from engramlog.projections.tables.facts.cards import SUMMARY_RELATION as SUMMARY


class MemoryCard(Struct):
    """An entity in one scope as one text: the protocol's keys, then ours.

    ``summary`` is the protocol's short form, ``markdown`` the whole. ``facts`` counts the card's
    facts, ``omitted`` those that did not fit. ``contradictions`` lists the ids of the facts on each
    side of the open ones.
    """

    entity_uri: str
    scope: str
    summary: str
    fact_hashes: list[str]
    avg_confidence: float
    refreshed_at: str
    is_stale: bool
    has_contradictions: bool
    card_id: str
    relation: str
    garden_id: str | None
    markdown: str
    facts: int
    omitted: int
    contradictions: list[list[str]]
    token_estimate: int
    card_stale: bool
    force_refresh_timeout: bool
    moment: MomentRecord | UnsetType = UNSET
    warnings: Warnings = UNSET


def card_source(context: ReadingContext, at: MomentQuery) -> CardSource:
    """The present cards; for another moment, exact ones."""
    live_now = at.as_of is None and at.valid_at is None
    return context.service.cards if live_now else PastCards(context.node.reader.rows)


def card_answer(card: Card, served: Served, mode: Mode) -> MemoryCard:
    key = card.key
    return shaped(
        card,
        MemoryCard,
        entity_uri=key.entity,
        scope=key.scope,
        summary=for_model(mode, card.summary),
        refreshed_at=format_instant(served.moment.instant_us),
        is_stale=served.stale,
        card_id=key.card_id,
        relation=SUMMARY,
        garden_id=key.garden,
        markdown=for_model(mode, card.markdown),
        contradictions=[[fact.id for fact in sides] for sides in card.disputes],
        token_estimate=card.tokens,
        card_stale=served.stale,
        force_refresh_timeout=served.timed_out,
    )


def memory_card_of(served: Served | None, mode: Mode) -> dict[str, Any]:
    """A recall's fields about the card of its entity."""
    if served is None:
        return {"memory_card": None, "card_stale": False, "force_refresh_timeout": False}
    card = served.card
    return {
        "memory_card": None if card is None else card_answer(card, served, mode),
        "card_stale": served.stale,
        "force_refresh_timeout": served.timed_out,
    }


def card_record(
    context: RequestContext, view: View, moment: Moment, card_id: str
) -> FactRecord | None:
    """The card with this id as a fact; None if the caller cannot see it."""
    key = context.node.reader.ask(find_card, card_id)
    if key is None:
        return None
    return _record(context, view, key, context.model_authorization, moment)


def card_records(
    context: RequestContext,
    view: View,
    authorization: Authorization,
    moment: Moment,
    filters: ListFilters,
) -> list[FactRecord]:
    """An entity's cards as facts, newest first: one per place with facts that the caller sees."""
    if filters.entity is None or filters.attested or filters.source not in (None, CARD_SOURCE):
        return []
    slots = live(view, authorization, moment, view.slots_about(filters.entity))
    places: set[tuple[int, int]] = set(
        zip(view.garden[slots].tolist(), view.scope[slots].tolist(), strict=True)
    )
    keys = (
        CardKey(filters.entity, SCOPES[scope], None if garden < 0 else view.gardens.text(garden))
        for garden, scope in places
    )
    records = (_record(context, view, key, authorization, moment) for key in keys)
    found = [record for record in records if record is not None]
    return sorted(found, key=lambda record: (record.hlc, record.id), reverse=True)


def _record(
    context: RequestContext, view: View, key: CardKey, authorization: Authorization, moment: Moment
) -> FactRecord | None:
    card = card_at(AskedCard(view, key, authorization, moment), context.node.reader.rows)
    if card is None:
        return None
    row = fact_of_card(card)
    text = for_model(context.service.settings.sanitizer_mode, row.value_v)
    row = replace(row, value_v=text)
    return record_of(row, Volatile(CARD_CONFIDENCE, False, 1.0), row.origin)
