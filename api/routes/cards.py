"""Memory cards over HTTP."""

from __future__ import annotations

from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.carding import card_answer
from api.commands.gardening import entered_garden
from api.commands.naming import entity_named
from api.errors import coded, plain
from api.schemas.recall import CardQuery
from projections.cards.key import CardKey
from projections.cards.source import PastCards, Served
from projections.moment import Moment, format_instant


async def get_card(call: Call) -> web.Response:
    """The card of an entity in one scope, and one garden at most."""
    query = call.query(CardQuery)
    served, moment = await call.in_pool(lambda: _served(call, query))
    if served.card is None:
        if served.timed_out:
            raise coded("card_refresh_timeout", "the card is being written; ask again")
        raise plain("card_not_found")
    call.note_read((query.scope,))
    body = card_answer(served.card, served)
    body["moment"] = {"position": moment.position, "instant": format_instant(moment.instant_us)}
    return answer(warned(body, query))


def _served(call: Call, query: CardQuery) -> tuple[Served, Moment]:
    view = call.view()
    authorization = call.narrowed(query.scope, for_model=True)
    name = query.garden_id
    garden = None if name is None else entered_garden(call, name).id
    moment = call.moment(view, query)
    entity = entity_named(call, call.segment("entity_uri"), moment.position)
    key = CardKey(entity, query.scope, garden)
    if query.as_of is not None or query.valid_at is not None:
        past = PastCards(call.node.reader.rows)
        return past.exact(view, key, authorization, moment), moment
    cards = call.service.cards
    return cards.read(view, key, authorization, moment, refresh=query.refresh), moment
