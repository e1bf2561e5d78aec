"""A whole scope over HTTP: facts to check (lint), and a summary in numbers."""

from typing import Annotated

import numpy as np
from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.wire_facts import volatile_of
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.http.call import Call, warned
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks.jobs import JobAccepted, JobRecord
from engramlog.api.schemas.facts import LintBody, SynthesisQuery
from engramlog.api.schemas.values import VALUE_TYPES, ScopeText
from engramlog.projections.graph.lint import CHECKS, LintFinding, LintRequest, lint
from engramlog.projections.graph.synthesis import synthesize
from engramlog.projections.moment import format_instant

routes = Routes("scopes")


class LintReport(Warned):
    """``fact_count``: live facts; ``truncated``: a check found over 1,000."""

    findings: list[LintFinding]
    checked_at: str
    scope: ScopeText
    checks_run: tuple[str, ...]
    fact_count: int
    truncated: bool


class LintJob(JobRecord):
    """A lint that became a job."""

    result: LintReport | UnsetType = UNSET


class SynthesisValue(Struct):
    """``v`` is the stored text of the value."""

    type: Annotated[str, Meta(extra_json_schema={"enum": list(VALUE_TYPES)})]
    v: str


class SynthesisFact(Struct):
    """A fact in brief."""

    id: str
    entity: str
    relation: str
    value: SynthesisValue
    confidence: float
    timestamp: str
    valid_until: str | None
    is_expired: bool
    age_seconds: float
    contradicted: bool
    source: str


class Synthesis(Warned):
    """``fact_count``: listed facts, the most confident first; ``total_count``: all live facts; the
    other numbers count these. ``contradiction_count``: facts in an unresolved contradiction."""

    scope: ScopeText
    fact_count: int
    facts: list[SynthesisFact]
    contradiction_count: int
    mean_confidence: float
    freshest_timestamp: str | None
    oldest_timestamp: str | None
    expired_fact_count: int
    synthesized_at: str
    total_count: int


@routes.add(
    "POST /v1/lint",
    permission="read",
    answers={200: LintReport, 202: JobAccepted},
    errors=(501, 503),
    headers=("Stigmem-Session",),
    delegable=True,
)
async def lint_scope(call: Call, body: LintBody) -> web.Response:
    """Facts of a scope that deserve a check: stale, contradicted and the like."""
    call.narrowed(body.scope)  # answers 400 for an unknown scope
    checks = tuple(dict.fromkeys(body.checks or CHECKS))
    call.note_read((body.scope,))

    async def work() -> LintReport:
        return warned(
            await call.in_long_pool(lambda: _report(call, body, checks), admitted=True), body
        )

    facts = await call.in_pool(lambda: _readable(call, body))
    return await call.perhaps_later("lint", facts, work)


def _readable(call: Call, body: LintBody) -> int:
    """How many facts of the scope the caller may read: the size of the work."""
    return int(np.count_nonzero(call.narrowed(body.scope, for_model=True).mask(call.view())))


def _report(call: Call, body: LintBody, checks: tuple[str, ...]) -> LintReport:
    view, moment = call.at(body)
    request = LintRequest(
        scope=body.scope,
        checks=checks,
        entity=None if body.entity is None else entity_named(call, body.entity, moment.position),
        relation=body.relation,
        lookahead_us=int(body.stale_lookahead_s * 1_000_000),
    )
    report = lint(call.node.reader, view, call.model_authorization, moment, request)
    checked_at = format_instant(moment.instant_us)
    return shaped(report, LintReport, checked_at=checked_at, scope=body.scope, checks_run=checks)


@routes.add("GET /v1/lint/jobs/{job_id}", permission="read", answers={200: LintJob}, delegable=True)
async def lint_job(call: Call) -> JobRecord:
    """A lint that became a job."""
    return call.job("lint")


@routes.add(
    "GET /v1/scopes/{scope}/synthesize",
    permission="read",
    long=True,
    headers=("Stigmem-Session",),
    delegable=True,
)
def synthesize_scope(call: Call, query: SynthesisQuery) -> Synthesis:
    """A scope's most confident facts, and numbers over all of them."""
    scope = call.segment("scope")
    view = call.view()
    authorization = call.narrowed(scope, for_model=True)
    moment = call.moment(view, query)
    found = synthesize(
        view, authorization, moment, include_expired=query.include_expired, limit=query.limit
    )
    rows = call.node.reader.every_row(view.from_position[found.foremost].tolist())
    slots = [view.slot_at(row.from_position) for row in rows]
    numbers = volatile_of(view, np.array(slots, dtype=np.int32), moment, authorization)
    facts = [
        shaped(
            row,
            SynthesisFact,
            value=SynthesisValue(row.value_type, row.value_v),
            confidence=now.confidence,
            timestamp=format_instant(row.recorded_at),
            is_expired=bool(view.valid_until[slot] <= moment.valid_us),
            age_seconds=(moment.instant_us - row.recorded_at) / 1e6,
            contradicted=now.contradicted,
        )
        for row, now, slot in zip(rows, numbers, slots, strict=True)
    ]
    if facts:
        call.note_read((scope,))
    return Synthesis(
        scope=scope,
        fact_count=len(facts),
        facts=facts,
        contradiction_count=found.contradictions,
        mean_confidence=found.mean_confidence,
        freshest_timestamp=_instant(found.freshest_us),
        oldest_timestamp=_instant(found.oldest_us),
        expired_fact_count=found.expired,
        synthesized_at=format_instant(moment.instant_us),
        total_count=found.total,
    )


def _instant(instant_us: int | None) -> str | None:
    return None if instant_us is None else format_instant(instant_us)
