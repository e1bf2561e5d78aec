"""Memory cards over HTTP."""

from engramlog.api.answers.fact_record import wire_moment
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.commands.garden_access import entered_garden
from engramlog.api.commands.memory_cards import MemoryCard, card_answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.recall import CardQuery
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.cards.source import PastCards, Served
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.cards import CardKey

routes = Routes("recall")


@routes.add(
    "GET /v1/cards/{entity_uri:.+}",
    permission="read",
    errors=(503,),
    headers=("Stigmem-Session",),
    delegable=True,
)
def get_card(call: Call, query: CardQuery) -> MemoryCard:
    """The card of an entity in one scope and at most one garden."""
    served, moment = _served(call, query)
    if served.card is None:
        if served.timed_out:
            raise coded("card_refresh_timeout", "the card is not ready yet; ask again")
        raise plain("card_not_found")
    call.note_read((query.scope,))
    body = card_answer(served.card, served, call.service.settings.sanitizer_mode)
    body.moment = wire_moment(moment)
    return body


def _served(call: Call, query: CardQuery) -> tuple[Served, Moment]:
    view = call.view()
    authorization = call.narrowed(query.scope, for_model=True)
    name = query.garden_id
    garden = None if name is None else entered_garden(call, name).id
    moment = call.moment(view, query)
    entity = entity_named(call, call.segment("entity_uri"), moment.position)
    asked = AskedCard(view, CardKey(entity, query.scope, garden), authorization, moment)
    if query.as_of is not None or query.valid_at is not None:
        return PastCards(call.node.reader.rows).exact(asked), moment
    return call.service.cards.read(asked, refresh=query.refresh), moment
