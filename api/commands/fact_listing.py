"""A page of the list of facts: filters, order, and a cursor to resume from."""

import numpy as np
from msgspec.structs import replace

from engramlog.api.answers.erasure_records import TombstoneNotice
from engramlog.api.answers.fact_list import FactListPage, ListFilters, matching, page_of
from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.sanitizer_modes import screen
from engramlog.api.answers.wire_facts import record_of, volatile_of
from engramlog.api.commands.entity_names import entity_named, stored_uri
from engramlog.api.commands.garden_access import within
from engramlog.api.commands.memory_cards import card_records
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.commands.tombstones import notices_over
from engramlog.api.http.state.cursors import Cursor, filters_digest
from engramlog.api.schemas.facts import FactsQuery
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, parse_instant
from engramlog.projections.tables.facts.cards import CARD_RELATION

_KIND = "facts"
_UNBOUND = frozenset({"cursor", "limit", "tail"})
"""Parameters that may change between pages."""


def listed(
    context: RequestContext, query: FactsQuery
) -> tuple[FactListPage, list[FactRecord], str | None, Moment]:
    """A page of facts: slots, records, the cursor of the next page, and the moment."""
    view = context.view()
    authorization, walk, moment, filters = _question(context, query, view)
    if query.relation == CARD_RELATION and query.cursor is None:
        # Cards appear as facts only on request; a page holds all cards of an entity.
        records = card_records(context, view, authorization, moment, filters)
        page = FactListPage([], [], len(records), more=False)
        return page, records[: query.limit], None, moment
    found = matching(view, authorization, moment, filters)
    place = (int(walk.place[0]), str(walk.place[1])) if walk.place else None
    page = page_of(context.node.reader, view, found, limit=query.limit, after=place)
    records = _records(context, view, page, moment, authorization)
    return page, records, _next(context, walk, page), moment


def notices_of(context: RequestContext, query: FactsQuery) -> list[TombstoneNotice]:
    """For admins, with the first page: tombstones that hide facts of the list."""
    view = context.view()
    if not view.hiding or not context.authorization.may("admin"):
        return []
    authorization, _, moment, filters = _question(context, query, view)
    rights = authorization.past_tombstones()
    filters = replace(filters, include_contradicted=True)
    return notices_over(view, rights, matching(view, rights, moment, filters).slots)


def _question(
    context: RequestContext, query: FactsQuery, view: View
) -> tuple[Authorization, Cursor, Moment, ListFilters]:
    """The rights, the start of the page, the moment and the filters of a request."""
    authorization = within(context, context.narrowed(query.scope), query.garden_id)
    walk = _walk(context, query, view)
    moment = walk.moment(None if query.valid_at is None else parse_instant(query.valid_at))
    entity = None if query.entity is None else entity_named(context, query.entity, moment.position)
    filters = _filters(query, entity, walk.since, _hidden_below(view, query, moment))
    return authorization, walk, moment, filters


def _walk(context: RequestContext, query: FactsQuery, view: View) -> Cursor:
    """The start of this page: the cursor's walk, its continuation, or a new one."""
    digest = filters_digest(
        {name: getattr(query, name) for name in FactsQuery.model_fields if name not in _UNBOUND}
    )
    allowed = context.service.settings.time_travel_allow_fact_query_as_of
    now = context.moment(view, query, allowed=allowed)
    if query.cursor is None:
        return Cursor(_KIND, digest, now.position, now.instant_us, 0, tail=query.tail)
    cursor = context.service.cursors.open(
        query.cursor, kind=_KIND, digest=digest, now_us=context.node.clock.now_us()
    )
    if cursor.place:
        return cursor
    return Cursor(_KIND, digest, now.position, now.instant_us, 0, since=cursor.position, tail=True)


def _next(context: RequestContext, walk: Cursor, page: FactListPage) -> str | None:
    """The cursor of the next page; at the end of a tail walk, one to resume from later."""
    cursors = context.service.cursors
    if page.more:
        expires = cursors.expiry(context.node.clock.now_us())
        place: tuple[int | str, ...] = page.last
    elif walk.tail:
        expires, place = 0, ()
    else:
        return None
    return cursors.seal(replace(walk, expires_at_us=expires, place=place))


def _hidden_below(view: View, query: FactsQuery, moment: Moment) -> float:
    """Effective confidence below which the list omits facts of doubtful sources (wire 3.5)."""
    policy = view.trust_policy(moment)
    if query.include_low_trust or policy.mode == "off":
        return 0.0
    return policy.strict_hidden_below if policy.mode == "strict" else policy.hidden_below


def _filters(query: FactsQuery, entity: str | None, since: int, trusted_from: float) -> ListFilters:
    return shaped(
        query,
        ListFilters,
        entity=entity,
        source=None if query.source is None else stored_uri(query.source),
        after_us=None if query.after is None else parse_instant(query.after),
        since=since,
        prefer=query.prefer,
        trusted_from=trusted_from,
    )


def _records(
    context: RequestContext,
    view: View,
    page: FactListPage,
    moment: Moment,
    authorization: Authorization,
) -> list[FactRecord]:
    slots = np.asarray(page.slots, dtype=np.int32)
    numbers = volatile_of(view, slots, moment, authorization)
    node_id = context.node.node_id
    records = [record_of(row, now, node_id) for row, now in zip(page.rows, numbers, strict=True)]
    mode = context.service.settings.sanitizer_mode
    return screen(context.node.reader, view, slots, mode).show_all(records)
