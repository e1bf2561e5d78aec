"""The list of facts over HTTP: filters, pages, and a cursor to resume from."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.carding import CARD_RELATION, card_records
from api.commands.gardening import within
from api.commands.naming import entity_named, stored_uri
from api.commands.tombstoning import notices_over
from api.cursors import Cursor, filters_digest
from api.listing import Filters, Page, matching, page_of
from api.records import Record, record_of, volatile_of
from api.schemas.facts import FactsQuery
from api.screening import screen
from projections.authorization import Authorization
from projections.moment import Moment, parse_instant
from projections.view import View

_KIND = "facts"
_UNBOUND = frozenset({"cursor", "limit", "tail"})
"""Parameters that may change from page to page."""


async def list_facts(call: Call) -> web.Response:
    """Facts that match, newest first, a page at a time."""
    query = call.query(FactsQuery)
    call.session()
    page, records, cursor, _ = await call.in_pool(lambda: listed(call, query))
    notices = await call.in_pool(lambda: _notices(call, query)) if query.cursor is None else []
    body = {
        "facts": records,
        "total": page.total,
        "cursor": cursor,
        "tombstone_notices": notices,
    }
    call.note_read(frozenset(record["scope"] for record in records))
    return answer(warned(body, query), headers={"X-Total-Count": str(page.total)})


def listed(call: Call, query: FactsQuery) -> tuple[Page, list[Record], str | None, Moment]:
    """A page of facts: slots, records, the cursor of the next page, and the moment asked at."""
    view = call.view()
    authorization = within(call, call.narrowed(query.scope), query.garden_id)
    walk = _walk(call, query, view)
    valid_at_us = None if query.valid_at is None else parse_instant(query.valid_at)
    moment = walk.moment(valid_at_us)
    entity = None if query.entity is None else entity_named(call, query.entity, moment.position)
    filters = _filters(query, entity, walk.since, _hidden_below(view, query, moment))
    if query.relation == CARD_RELATION and query.cursor is None:
        page, records, cursor = _cards(call, query, view, authorization, moment, filters)
        return page, records, cursor, moment
    slots = matching(view, authorization, moment, filters)
    place = (int(walk.place[0]), str(walk.place[1])) if walk.place else None
    page = page_of(call.node.reader, view, slots, limit=query.limit, after=place)
    records = _records(call, view, page, moment, authorization)
    return page, records, _next(call, walk, page), moment


def _notices(call: Call, query: FactsQuery) -> list[dict[str, Any]]:
    """Tombstones that keep facts from the list, for admins; with its first page."""
    view = call.view()
    if not view.hiding or not call.authorization.may("admin"):
        return []
    rights = within(call, call.narrowed(query.scope), query.garden_id).past_tombstones()
    walk = _walk(call, query, view)
    moment = walk.moment(None if query.valid_at is None else parse_instant(query.valid_at))
    entity = None if query.entity is None else entity_named(call, query.entity, moment.position)
    filters = _filters(query, entity, walk.since, _hidden_below(view, query, moment))
    filters = msgspec.structs.replace(filters, include_contradicted=True)
    return notices_over(view, rights, matching(view, rights, moment, filters))


def _cards(
    call: Call,
    query: FactsQuery,
    view: View,
    authorization: Authorization,
    moment: Moment,
    filters: Filters,
) -> tuple[Page, list[Record], str | None]:
    """Cards are facts only to those who ask for them; a page holds all of an entity's."""
    records = card_records(call, view, authorization, moment, filters)
    return Page([], [], len(records), more=False), records[: query.limit], None


def _walk(call: Call, query: FactsQuery, view: View) -> Cursor:
    """Where this page starts: the cursor's walk, its continuation, or a new one."""
    digest = filters_digest(
        {name: getattr(query, name) for name in FactsQuery.model_fields if name not in _UNBOUND}
    )
    allowed = call.service.settings.time_travel_allow_fact_query_as_of
    now = call.moment(view, query, allowed=allowed)
    if query.cursor is None:
        return Cursor(_KIND, digest, now.position, now.instant_us, 0, tail=query.tail)
    cursor = call.service.cursors.open(
        query.cursor, kind=_KIND, digest=digest, now_us=call.node.clock.now_us()
    )
    if cursor.place:
        return cursor
    return Cursor(_KIND, digest, now.position, now.instant_us, 0, since=cursor.position, tail=True)


def _next(call: Call, walk: Cursor, page: Page) -> str | None:
    """The cursor of the next page; at the end of a tail walk, one to resume from later."""
    cursors = call.service.cursors
    if page.more:
        expires = cursors.expiry(call.node.clock.now_us())
        place: tuple[int | str, ...] = page.last
    elif walk.tail:
        expires, place = 0, ()
    else:
        return None
    return cursors.seal(
        Cursor(
            walk.kind,
            walk.digest,
            walk.position,
            walk.instant_us,
            expires,
            place,
            walk.since,
            walk.tail,
        )
    )


def _hidden_below(view: View, query: FactsQuery, moment: Moment) -> float:
    """Effective confidence under which facts of doubtful sources are left out (wire 3.5)."""
    policy = view.trust_policy(moment)
    if query.include_low_trust or policy.mode == "off":
        return 0.0
    return policy.strict_hidden_below if policy.mode == "strict" else policy.hidden_below


def _filters(query: FactsQuery, entity: str | None, since: int, trusted_from: float) -> Filters:
    return Filters(
        entity=entity,
        relation=query.relation,
        source=None if query.source is None else stored_uri(query.source),
        min_confidence=query.min_confidence,
        include_contradicted=query.include_contradicted,
        include_expired=query.include_expired,
        include_retracted=query.include_retracted,
        after_us=None if query.after is None else parse_instant(query.after),
        since=since,
        prefer_newest=query.prefer == "hlc",
        attested=query.attested,
        trusted_from=trusted_from,
    )


def _records(
    call: Call, view: View, page: Page, moment: Moment, authorization: Authorization
) -> list[Record]:
    slots = np.asarray(page.slots, dtype=np.int32)
    numbers = volatile_of(view, slots, moment, authorization)
    node_id = call.node.node_id
    records = [record_of(row, now, node_id) for row, now in zip(page.rows, numbers, strict=True)]
    mode = call.service.settings.sanitizer_mode
    return screen(call.node.reader, view, slots, mode).show_all(records)
