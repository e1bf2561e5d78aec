"""Consolidation rules over HTTP: set, read, run, and their progress."""

from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.memory_records import delta_document
from engramlog.api.commands.assertions import check_source, stored_uri
from engramlog.api.commands.garden_access import entered_garden
from engramlog.api.http.auth import require
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded, invalid, invalid_at, refused
from engramlog.api.http.routing import Routes
from engramlog.api.node.consolidator import (
    ConsolidationFailed,
    RunCounts,
    RunReport,
    delta_kinds,
    readers_of,
)
from engramlog.api.schemas.memory import RunsQuery
from engramlog.api.schemas.values import Flag, Model
from engramlog.eventlog.kinds import ConsolidationRuleSet
from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes import reading, reading_deltas, reading_rules
from engramlog.projections.episodes.cadence import next_fire
from engramlog.projections.episodes.rule import Rule, RuleError, new_rule, parse_rule
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.declared.garden_directory import WRITING_ROLES

routes = Routes("episodes")

RUNS_SHOWN = 10
DELTAS_SHOWN_MAX = 1_000
_StoredRule = tuple[str, dict[str, Any], str, int]


class RuleDocument(Model, extra="allow"):
    """A consolidation rule; ``docs/consolidation.md`` describes its fields."""


class RunRequest(Model, extra="forbid"):
    """Run a rule now. ``from_position`` reads again from there; ``dry_run`` writes nothing;
    ``limit``: episodes to read at most."""

    dry_run: Flag = False
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    from_position: int | None = Field(default=None, ge=1, le=2**62)


class RuleRecord(Struct):
    """A rule and its author."""

    rule_id: str
    version: str
    document: dict[str, Any]
    set_by: str
    set_at: str


class RulePage(Struct):
    """The rules whose episodes the caller may read."""

    rules: list[RuleRecord]


class RunAnswer(RunCounts, kw_only=True):
    """The result of a run, or of a dry run."""

    kinds: dict[str, int]
    deltas: list[dict[str, Any]]
    raced: bool
    more: bool


class RuleStatus(Struct):
    """The progress of a rule."""

    rule_id: str
    enabled: bool
    cadence: dict[str, Any]
    watermark: int
    read: int
    pending: int
    next_fire: str | None
    runs: list[dict[str, Any]]
    quarantined: list[dict[str, Any]]


class ConsolidationStatus(Struct):
    """The progress of each rule, and whether rules run automatically."""

    scheduler: bool
    rules: list[RuleStatus]


@routes.add("GET /v1/consolidation/rules", permission="read")
def list_rules(call: Call, query: RunsQuery) -> RulePage:
    """The rules whose episodes the caller may read."""
    moment = call.moment(call.view(), query)
    return RulePage([_record(each) for each in _visible(call, moment)])


@routes.add("GET /v1/consolidation/rules/{rule_id}", permission="read")
def get_rule(call: Call, query: RunsQuery) -> RuleRecord:
    """One consolidation rule."""
    return _record(_visible_rule(call, call.moment(call.view(), query)))


@routes.add(
    "PUT /v1/consolidation/rules/{rule_id}",
    permission="operator",
    answers={200: RuleRecord, 201: RuleRecord},
)
async def put_rule(call: Call, body: RuleDocument) -> web.Response:
    """Install a consolidation rule, or replace it. Its watermark stays: it reads each episode
    once."""
    rule_id = call.segment("rule_id")
    document = {**(body.model_extra or {}), "id": rule_id}
    given = (body.model_extra or {}).get("id", rule_id)
    if given != rule_id:
        raise invalid("rule_id", ("body", "id"), "must be the id in the path")
    try:
        rule = new_rule(document)
    except RuleError as fault:
        raise invalid_at("invalid_rule", fault.path, fault.reason) from fault
    rule = _placed(call, rule)
    await call.in_pool(lambda: _check_replaceable(call, rule_id))
    done = await call.do(ConsolidationRuleSet(rule_id=rule_id, document=rule.document()))
    return answer(_record(await _present_rule(call)), 201 if done.created else 200)


@routes.add("DELETE /v1/consolidation/rules/{rule_id}", permission="operator", status=204)
async def delete_rule(call: Call) -> None:
    """Remove a consolidation rule. Its facts and its watermark stay."""
    rule_id, *_ = await _present_rule(call)
    await call.do(ConsolidationRuleSet(rule_id=rule_id, document=None))


@routes.add("POST /v1/consolidation/rules/{rule_id}/run", permission="write")
async def run_rule(call: Call, request: RunRequest) -> RunAnswer:
    """Run a consolidation rule now, before its cadence, or as a dry run (``dry_run``)."""
    require(call.caller, "read")  # the answer repeats what it read
    _, document, *_ = await _present_rule(call)
    rule = parse_rule(document)
    consolidator = call.service.consolidator
    if request.dry_run:
        report = await consolidator.dry_run(rule, from_position=request.from_position)
    else:
        _check_writer(call, rule)
        try:
            report = await consolidator.run(
                rule,
                asked_by=call.caller.principal,
                from_position=request.from_position,
                most=request.limit,
                keep=True,
            )
        except ConsolidationFailed as fault:
            raise refused(fault.refusal) from fault
    return await call.in_pool(lambda: _report(call, rule, report))


@routes.add("GET /v1/consolidation/status", permission="read")
def status(call: Call, query: RunsQuery) -> ConsolidationStatus:
    """The watermark, backlog, next run and last runs of each rule."""
    moment = call.moment(call.view(), query)
    rules = [parse_rule(rule[1]) for rule in _visible(call, moment)]
    statuses = call.node.reader.ask(lambda db: [_status(call, db, rule, moment) for rule in rules])
    return ConsolidationStatus(call.service.scheduler.running, statuses)


def _status(call: Call, db: Any, rule: Rule, moment: Moment) -> RuleStatus:
    """A rule's progress, with what waits for it and its last runs."""
    mark = reading_rules.watermark(db, rule.id, moment.position)
    waiting, _ = reading.pending(db, readers_of(rule), mark, until=moment.position)
    cadence = rule.timetable
    fires = None if cadence.cron is None else format_instant(next_fire(cadence, moment.instant_us))
    runs = reading_rules.runs_of(db, call.authorization, rule.id, moment.position, RUNS_SHOWN)
    for run in runs:
        run["replay"] = bool(run["replay"])
        run["at"] = format_instant(run.pop("at_us"))
        scheduled = run.pop("scheduled_us")
        run["scheduled_at"] = None if scheduled is None else format_instant(scheduled)
    return RuleStatus(
        rule_id=rule.id,
        enabled=rule.enabled,
        cadence=cadence.document(),
        watermark=mark,
        read=reading_rules.episodes_read(db, call.authorization, rule.id, moment.position),
        pending=waiting,
        next_fire=fires,
        runs=runs,
        quarantined=reading_deltas.quarantined_of(
            db, call.authorization, rule.id, moment.position, call.shown(call.view())
        ),
    )


def _visible(call: Call, moment: Moment) -> list[_StoredRule]:
    rules = call.node.reader.ask(reading_rules.rules_at, moment.position)
    return [rule for rule in rules if _may_read(call.authorization, rule[1])]


def _may_read(rights: Authorization, document: dict[str, Any]) -> bool:
    garden = document.get("garden_id")
    return document.get("scope", "local") in rights.scopes and (
        garden is None or rights.every_garden or garden in rights.gardens
    )


def _visible_rule(call: Call, moment: Moment) -> _StoredRule:
    """The rule that the path names. Raises ApiError 404, also for a rule over episodes that the
    caller may not read."""
    wanted = call.segment("rule_id")
    for rule in _visible(call, moment):
        if rule[0] == wanted:
            return rule
    raise coded("rule_not_found", "consolidation rule not found")


async def _present_rule(call: Call) -> _StoredRule:
    return await call.in_pool(lambda: _visible_rule(call, call.moment(call.view())))


def _check_replaceable(call: Call, rule_id: str) -> None:
    """Raises ApiError 403 for a rule over episodes that the caller may not read."""
    for rule in call.node.reader.ask(reading_rules.rules_at, call.view().position):
        if rule[0] == rule_id and not _may_read(call.authorization, rule[1]):
            raise coded(
                "scope_forbidden", "this key does not cover the scope of the rule of this id"
            )


def _placed(call: Call, rule: Rule) -> Rule:
    """The rule with its garden by id and its source in stored form; the caller may write there.
    Raises ApiError 403, 404."""
    call.check_scope(rule.scope)
    source = rule.source
    if source is not None:
        source = stored_uri(source)
        check_source(call, source)
    garden = None
    if rule.garden_id is not None:
        found = entered_garden(call, rule.garden_id)
        if found.scope != rule.scope:
            raise coded("garden_scope_mismatch", f"garden scope is {found.scope!r}")
        garden = found.id
    placed = msgspec.structs.replace(rule, garden_id=garden, source=source)
    _check_writer(call, placed)
    return placed


def _check_writer(call: Call, rule: Rule) -> None:
    """Raises ApiError 403 if the caller may not write where the rule writes."""
    call.check_scope(rule.scope)
    rights = call.authorization
    if rule.garden_id is None or rights.every_garden:
        return
    garden = entered_garden(call, rule.garden_id)
    if garden.role(rights.principal) not in WRITING_ROLES:
        raise coded("garden_write_forbidden", "write permission required in this garden")


def _record(rule: _StoredRule) -> RuleRecord:
    rule_id, document, set_by, set_at = rule
    version = parse_rule(document).version
    return RuleRecord(rule_id, version, document, set_by, format_instant(set_at))


def _report(call: Call, rule: Rule, report: RunReport) -> RunAnswer:
    """The run's counts, and its deltas and unusable episodes as far as the caller sees them."""
    view, rights = call.view(), call.authorization
    proposals = report.proposals[:DELTAS_SHOWN_MAX]
    names = {name for each in proposals for name in each.delta.source_episode_ids}
    names |= {each["key"] for each in report.quarantined}
    ask, shown = call.node.reader.ask, call.shown(view)
    found = ask(reading.find_episodes, rights, view.position, sorted(names), shown)
    place = (rule.scope, rule.garden_id)
    here = [each for each in found if (each.scope, each.garden_id) == place]
    keys, hashes = {each.key for each in here}, {each.hash for each in here}
    results = {result["delta_id"]: result for result in report.results}
    deltas: list[dict[str, Any]] = []
    for proposal in proposals:
        if not hashes.issuperset(proposal.episodes or ()):
            continue
        made = {
            "delta_id": proposal.delta_id,
            "user": proposal.place.user,
            "agent": proposal.place.agent,
            **delta_document(proposal.delta),
        }
        result = results.get(proposal.delta_id)
        if result is not None:
            made |= {name: result[name] for name in ("status", "fact_id", "retracted", "warnings")}
        deltas.append(made)
    counts = {name: getattr(report, name) for name in RunCounts.__struct_fields__}
    counts["quarantined"] = [each for each in report.quarantined if each["key"] in keys]
    return RunAnswer(
        **counts,
        kinds=delta_kinds(report.proposals),
        deltas=deltas,
        raced=report.raced,
        more=report.more or len(report.proposals) > len(proposals),
    )
