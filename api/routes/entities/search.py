"""Search while typing: over names, aliases and values."""

import numpy as np
from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.fact_record import FactRecord, MomentRecord, wire_moment
from engramlog.api.answers.same_fields import shaped
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import MomentQuery
from engramlog.projections.authorization import Authorization
from engramlog.projections.graph.search import search
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.tables.declared.aliases import AliasRow

routes = Routes("facts")

SEARCH_LENGTH_MAX = 500


class SearchQuery(MomentQuery, extra="forbid"):
    """``q``: words, or parts of words, that a name, an alias or a fact must contain."""

    q: str = Field(min_length=1, max_length=SEARCH_LENGTH_MAX)
    scope: str | None = None
    limit: int = Field(default=20, ge=1, le=100)


class FoundEntity(Struct):
    """``facts``: those that the caller may read. ``label``: the entity's name according to a fact.
    ``alias``: the alias that matched."""

    entity: str
    facts: int
    label: str | None
    alias: str | None


class SearchAnswer(Struct):
    """The best match first."""

    entities: list[FoundEntity]
    facts: list[FactRecord]
    moment: MomentRecord


ALIASES_MAX = 10_000
_LABELS = (":name", ":label", ":title")
"""Endings of relations that hold an entity's name."""


@routes.add("GET /v1/search", permission="read", headers=("Stigmem-Session",), delegable=True)
def search_facts(call: Call, query: SearchQuery) -> SearchAnswer:
    """Entities and facts whose names, aliases and values contain all words."""
    view = call.view()
    rights = call.narrowed(query.scope)
    moment = call.moment(view, query)
    found = search(view, rights, moment, query.q, _aliases(call, view, moment), query.limit)
    entities = [
        shaped(each, FoundEntity, label=_label(call, view, rights, moment, each.entity))
        for each in found.entities
    ]
    records = call.records(view, found.slots, moment)
    call.note_facts(records)
    return SearchAnswer(entities, records, wire_moment(moment))


def _aliases(call: Call, view: View, moment: Moment) -> list[tuple[str, str]]:
    gone = view.hiding.covers_everywhere

    def shown(row: AliasRow) -> bool:
        return not gone(row.raw_uri) and not gone(row.canonical_uri)

    book = call.node.reader.aliases
    rows = book.list(moment.position, "", ALIASES_MAX, shown)
    return [(row.raw_uri, book.resolve(row.raw_uri, moment.position)) for row in rows]


def _label(
    call: Call, view: View, rights: Authorization, moment: Moment, entity: str
) -> str | None:
    """The newest name of an entity, from a fact that the caller may read."""
    slots = live(view, rights, moment, view.entity_slots(view.entities.numbered(entity)))
    relations = np.unique(view.relation[slots])
    names = view.relations.texts(relations.tolist())
    labels = relations[[name.endswith(_LABELS) for name in names]]
    named = slots[np.isin(view.relation[slots], labels)]
    if not len(named):
        return None
    newest = view.by_age(named)[-1:]
    value = call.records(view, newest, moment)[0].value
    return str(value.v) if value.type in ("string", "text") else None
