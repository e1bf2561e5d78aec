"""The list of facts over HTTP."""

from aiohttp import web

from engramlog.api.answers.compact_facts import lines_of, statement
from engramlog.api.answers.erasure_records import TombstoneNotice
from engramlog.api.answers.fact_list import FactListPage
from engramlog.api.answers.fact_record import FactRecord, ShortFact, Warned
from engramlog.api.commands.fact_listing import listed, notices_of
from engramlog.api.http.bodies import encoded, json_answer
from engramlog.api.http.call import Call, warned
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import FactListQuery
from engramlog.projections.tables.facts.cards import CARD_RELATION

routes = Routes("facts")

QUICK_FACTS_MAX = 20_000
QUICK_LIMIT_MAX = 100
"""Up to this many facts in the store and on the page, the event loop makes the list."""


class FactPage(Warned):
    """``total`` counts every match; ``cursor`` is null on the last page."""

    facts: list[FactRecord]
    total: int
    cursor: str | None
    tombstone_notices: list[TombstoneNotice]


class ShortFactPage(Warned):
    """A page of short records (``fields=facts``)."""

    facts: list[ShortFact]
    total: int
    cursor: str | None
    tombstone_notices: list[TombstoneNotice]


class FactLines(Warned):
    """A page as text (``fields=compact``)."""

    text: str
    total: int
    cursor: str | None
    tombstone_notices: list[TombstoneNotice]


@routes.add(
    "GET /v1/facts",
    permission="read",
    answers={200: FactPage | ShortFactPage | FactLines},
    errors=(404,),
    headers=("Stigmem-Session",),
    delegable=True,
)
async def list_facts(call: Call, query: FactListQuery) -> web.Response:
    """Matching facts, newest first, in pages."""

    def found() -> tuple[FactListPage, list[FactRecord], bytes]:
        page, records, cursor, _ = listed(call, query)
        notices = notices_of(call, query) if query.cursor is None else []
        rest = (page.total, cursor, notices)
        if query.fields == "compact":
            body = FactLines(lines_of(records, query.scope), *rest)
        elif query.fields == "facts":
            body = ShortFactPage([ShortFact(*statement(each)) for each in records], *rest)
        else:
            body = FactPage(records, *rest)
        if page.undecided and query.cursor is None:
            body.warnings = [
                f"facts left out because they are contradicted, without another value in their "
                f"place: {page.undecided}; "
                "include_contradicted=true lists them, prefer=source the newest of each source"
            ]
        return page, records, encoded(warned(body, query))

    page, records, data = found() if _is_quick(call, query) else await call.read(found)
    call.note_facts(records)
    headers = {"X-Total-Count": str(page.total)}
    return json_answer(data, headers=headers)


def _is_quick(call: Call, query: FactListQuery) -> bool:
    """Whether making the list takes less time than switching threads."""
    image = call.node.reader.image
    return (
        image.published <= QUICK_FACTS_MAX
        and query.limit <= QUICK_LIMIT_MAX
        and query.as_of is None
        and query.relation != CARD_RELATION
        and not image.tail.count
    )
