"""Summaries over HTTP: recorded by name, listed as of a moment."""

from datetime import date
from typing import Annotated

import numpy as np
from aiohttp import web
from msgspec import Struct
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import check_entity, check_size, source_of
from engramlog.api.commands.attestations import check_unattested
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.commands.episodes import writable
from engramlog.api.commands.garden_access import within
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.values import Model, ScopeText
from engramlog.eventlog.kinds import Scope
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.memories.summary_naming import NAME_LENGTH_MAX, Tier, period_of_name
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import URI_LENGTH_MAX
from engramlog.projections.summaries.reading import (
    SummaryFilter,
    SummaryRow,
    paragraphs_at,
    paragraphs_of,
    summaries_at,
)
from engramlog.projections.writing.memory_commands import RecordSummary

routes = Routes("summaries")

SUMMARIES_MAX = 200
PAGE_MAX = 200


def _name(text: str) -> str:
    if period_of_name(text) is None:
        raise PydanticCustomError(
            "invalid_summary", "must be a summary's path, such as weekly/weekly_2026-W25.md"
        )
    return text


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as fault:
        raise PydanticCustomError("invalid_date", "must be a day, such as 2026-06-15") from fault


Day = Annotated[str, Field(max_length=10), AfterValidator(_day)]


class SummaryBody(Model, extra="forbid"):
    """A summary: its path and its Markdown; without ``text`` it is deleted."""

    name: Annotated[str, Field(max_length=NAME_LENGTH_MAX), AfterValidator(_name)]
    text: str | None


class SummariesRequest(Model, extra="forbid"):
    """Summaries of one scope or garden; ``source`` is the caller by default."""

    summaries: list[SummaryBody] = Field(min_length=1, max_length=SUMMARIES_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    source: str | None = Field(default=None, min_length=1, max_length=URI_LENGTH_MAX)


class SummariesQuery(MomentQuery, extra="forbid"):
    """A filter of summaries; ``since`` and ``until`` are days, both inclusive."""

    tier: Tier | None = None
    since: Day | None = None
    until: Day | None = None
    source: str | None = Field(default=None, min_length=1, max_length=URI_LENGTH_MAX)
    scope: Scope | None = None
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    limit: int = Field(default=20, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class RecordedSummary(Struct):
    """The outcome of a summary; ``changed``: it differed from the recorded one."""

    name: str
    tier: Tier
    period_start: str
    paragraphs: int
    asserted: int
    retracted: int
    changed: bool


class SummariesAnswer(Struct):
    """The outcome of each summary."""

    recorded: int
    unchanged: int
    summaries: list[RecordedSummary]
    position: int


class ParagraphRecord(Struct):
    """A paragraph and the fact that holds it."""

    fact_id: str
    text: str
    confidence: float


class SummaryRecord(Struct):
    """A summary with the paragraphs that the caller may read."""

    name: str
    tier: Tier
    period_start: str
    source: str
    scope: ScopeText
    garden_id: str | None
    recorded_at: str
    paragraphs: list[ParagraphRecord]


class SummaryPage(Struct):
    """Summaries, newest first."""

    summaries: list[SummaryRecord]
    cursor: str | None


_KIND = "summaries"
_ROWS = 200
"""Summaries to look up at once: some may contain no visible paragraph."""


@routes.add(
    "POST /v1/summaries",
    permission="write",
    body=SummariesRequest,
    answers={200: SummariesAnswer, 201: SummariesAnswer},
    errors=(404,),
)
async def record_summaries(call: Call) -> web.Response:
    """Record several summaries of one scope or garden, or none of them."""
    request = await call.large_body(SummariesRequest)
    commands = await call.in_pool(lambda: _commands(call, request))
    call.charge(len(commands))
    made = [
        RecordedSummary(name=command.name, changed=done.created, **done.detail)
        for command, done in zip(commands, await call.do_all(commands), strict=True)
    ]
    recorded = sum(each.changed for each in made)
    body = SummariesAnswer(recorded, len(made) - recorded, made, call.view().position)
    return answer(body, 201 if recorded else 200)


def _commands(call: Call, request: SummariesRequest) -> list[RecordSummary]:
    check_unattested(call)
    where = writable(call, request.scope, request.garden_id)
    owner = source_of(call, request.source)
    commands: list[RecordSummary] = []
    for each in request.summaries:
        period = period_of_name(each.name)
        assert period is not None  # the schema requires it
        check_entity(call, period.entity)
        for part in paragraphs_of(each.text or ""):
            check_size(call, len(part.encode()), f"a paragraph of {each.name}")
        commands.append(
            RecordSummary(
                name=each.name,
                text=each.text,
                owner=owner,
                scope=where.scope,
                garden_id=where.garden_id,
                rights=call.authorization.alone(),
            )
        )
    return commands


@routes.add("GET /v1/summaries", permission="read", errors=(404,))
def list_summaries(call: Call, query: SummariesQuery) -> SummaryPage:
    """Summaries at a moment with the paragraphs that the caller may read, newest period first.
    Omits summaries without such a paragraph."""
    view = call.view()
    rights = within(call, call.narrowed(query.scope), query.garden_id)
    requested = call.moment(view, query)
    walk = call.walk(_KIND, query, requested)
    moment = walk.moment(requested.valid_at_us)
    before = (str(walk.place[0]), int(walk.place[1])) if walk.place else None
    found: list[tuple[SummaryRow, list[int]]] = []
    while len(found) <= query.limit:
        rows, some = _some(call, query, view, rights, moment, before)
        found += some
        if len(rows) < _ROWS:
            break
        before = (rows[-1].period_start, rows[-1].position)
    shown, text = call.page(
        walk, found, query.limit, lambda each: (each[0].period_start, each[0].position)
    )
    summaries = [_record(call, view, moment, row, slots) for row, slots in shown]
    call.note_read(frozenset(each.scope for each in summaries))
    return SummaryPage(summaries, text)


def _some(
    call: Call,
    query: SummariesQuery,
    view: View,
    rights: Authorization,
    moment: Moment,
    before: tuple[str, int] | None,
) -> tuple[list[SummaryRow], list[tuple[SummaryRow, list[int]]]]:
    """The next summaries; and those with visible paragraphs, with the slots of these."""
    owner = None if query.source is None else stored_uri(query.source)
    chosen = shaped(query, SummaryFilter, owner=owner, before=before)
    reader = call.node.reader
    with reader.pool.connection() as db:
        rows = summaries_at(db, moment.position, rights, chosen, _ROWS)
        facts = paragraphs_at(db, [row.position for row in rows])
    slots = {
        fact: slot
        for ids in facts.values()
        for fact in ids
        if (slot := view.slot_of(fact)) is not None
    }
    paragraphs = np.array(sorted(set(slots.values())), dtype=np.int32)
    readable = set(live(view, rights, moment, paragraphs).tolist())
    held = [
        (row, [n for fact in facts[row.position] if (n := slots.get(fact, -1)) in readable])
        for row in rows
    ]
    return rows, [(row, kept) for row, kept in held if kept]


def _record(
    call: Call, view: View, moment: Moment, row: SummaryRow, slots: list[int]
) -> SummaryRecord:
    records = call.records(view, slots, moment)
    return shaped(
        row,
        SummaryRecord,
        source=row.owner,
        paragraphs=[
            ParagraphRecord(each.id, str(each.value.v), each.confidence) for each in records
        ],
    )
