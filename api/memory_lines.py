"""Lines of an import file about episodes, deltas and summaries, and what they ask for.

Deltas were applied elsewhere: a line says what came of them, and nothing is decided anew. What
they stated and ended stands in ``then``, in its order, as lines of its own.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from api.fact_lines import AssertLine, RetractLine, assert_intent
from api.garden_lines import FindGarden, garden_id_of
from api.line_base import Line, LineError, Scope, line_instant, line_uri
from api.schemas.memory import EpisodeBody
from eventlog.kinds import (
    AppliedDelta,
    DeltaApplied,
    DeltaRejected,
    EpisodeAccessed,
    SummaryRecorded,
)
from projections.episodic.delta import REPLACES_MAX, SOURCES_MAX
from projections.episodic.place import PART_BYTES_MAX, MemoryScopeError, name_part
from projections.intents import (
    NewEpisode,
    RecordEpisodes,
    RestateBatch,
    RestatedFact,
    RestateNote,
)
from projections.summaries.naming import period_of_name

DELTAS_MAX = 1_000
Kind: TypeAlias = Literal["add", "update", "delete", "noop"]


class EpisodeLine(Line, frozen=True, kw_only=True, tag="episode"):
    """Something that happened in a session. ``id``: its recorder's name for it, ``key`` the
    file's; ``timestamp``: when; ``recorded_by``: whose word it is."""

    user: str
    session: str
    agent: str
    content: str
    timestamp: str
    key: str | None = None
    id: str | None = None
    scope: Scope = "local"
    garden_id: str | None = None
    source_node: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    step: int | None = None
    recorded_by: str | None = None


class LookLine(Line, frozen=True, kw_only=True, tag="look"):
    """Episodes (by key) were looked at."""

    episodes: list[str]
    at: str


class DeltaItem(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One delta and what came of it: ``fact`` is what it stated or found standing, ``retracted``
    what it ended, by key. ``name``: the fact's own in the delta."""

    delta_id: str
    kind: Kind
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[str]
    promotion_ts: str
    confidence: float = 1.0
    replaces: list[str] = field(default_factory=list)
    name: str | None = None
    subject: str | None = None
    predicate: str | None = None
    fact: str | None = None
    retracted: list[str] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    lineage: list[dict[str, Any]] = field(default_factory=list)


class DeltasLine(Line, frozen=True, kw_only=True, tag="deltas"):
    """Deltas of one scope or garden that were applied together, and the facts of it."""

    deltas: list[DeltaItem]
    scope: Scope = "local"
    garden_id: str | None = None
    run_id: str | None = None
    applied_by: str | None = None
    then: list[AssertLine | RetractLine] = field(default_factory=list)


class RejectedLine(Line, frozen=True, kw_only=True, tag="rejected"):
    """A delta that could not be applied, and why."""

    delta_id: str
    kind: Kind
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[str]
    reason: str
    message: str = ""
    replaces: list[str] = field(default_factory=list)
    scope: Scope = "local"
    garden_id: str | None = None
    run_id: str | None = None
    applied_by: str | None = None


class SummaryLine(Line, frozen=True, kw_only=True, tag="summary"):
    """A summary has these paragraphs (facts, by key) from here on, or is gone (``removed``)."""

    name: str
    owner: str
    facts: list[str] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    scope: Scope = "local"
    garden_id: str | None = None
    removed: bool = False
    modified_at: str | None = None
    size: int | None = None
    recorded_by: str | None = None
    then: list[AssertLine | RetractLine] = field(default_factory=list)


def episode_intent(line: EpisodeLine, value_bytes_max: int, find: FindGarden) -> RecordEpisodes:
    """Record one episode. Raises LineError."""
    names = ("user", "session", "agent", "content", "timestamp", "id", "source_node", "metadata",
             "run_id", "step")  # fmt: skip
    try:
        body = EpisodeBody.model_validate({name: getattr(line, name) for name in names})
    except ValidationError as fault:
        error = fault.errors(include_url=False)[0]
        raise LineError(error["msg"], ".".join(str(part) for part in error["loc"])) from fault
    if len(body.content.encode()) > value_bytes_max:
        raise LineError(f"is over {value_bytes_max} bytes", "content")
    episode = NewEpisode(
        user=body.user,
        session=body.session,
        agent=body.agent,
        content=body.content,
        at_us=line_instant(line.timestamp, "timestamp"),
        id=body.id,
        source_node=body.source_node,
        metadata=body.metadata,
        run_id=body.run_id,
        step=body.step,
    )
    return RecordEpisodes(
        scope=line.scope,
        episodes=(episode,),
        garden_id=garden_id_of(line.garden_id, find, "garden_id"),
        recorded_by=actor_of(line.recorded_by, "recorded_by"),
    )


def look_intent(line: LookLine) -> RestateNote:
    """Note that episodes (by their key here) were looked at. Raises LineError."""
    if not line.episodes:
        raise LineError("must not be empty", "episodes")
    at_us = line_instant(line.at, "at")
    return RestateNote(payload=EpisodeAccessed(episodes=list(line.episodes), at_us=at_us))


def deltas_intent(line: DeltasLine, value_bytes_max: int, find: FindGarden) -> RestateBatch:
    """Restate a batch of deltas. Raises LineError."""
    if not 1 <= len(line.deltas) <= DELTAS_MAX:
        raise LineError(f"must be 1 to {DELTAS_MAX}", "deltas")
    garden_id = garden_id_of(line.garden_id, find, "garden_id")
    applied = [_applied(item, f"deltas.{number}") for number, item in enumerate(line.deltas)]
    made = {item.key for item in line.then if isinstance(item, AssertLine)}
    loose = made - {item.fact for item in line.deltas}
    if loose:
        raise LineError("states a fact that no delta names", "then")
    payload = DeltaApplied(
        scope=line.scope, deltas=applied, garden_id=garden_id, run_id=_name(line.run_id, "run_id")
    )
    return RestateBatch(
        payload=payload,
        then=_then(line, garden_id, value_bytes_max),
        actor=actor_of(line.applied_by, "applied_by"),
    )


def rejected_intent(line: RejectedLine, find: FindGarden) -> RestateNote:
    """Note a delta that was rejected. Raises LineError."""
    payload = DeltaRejected(
        scope=line.scope,
        delta_id=_named(line.delta_id, "delta_id"),
        delta=line.kind,
        user=_part(line.user, "user"),
        agent=_part(line.agent, "agent"),
        rule_id=line.rule_id,
        source_episode_ids=list(line.source_episode_ids),
        reason=line.reason,
        replaces=list(line.replaces),
        message=line.message,
        garden_id=garden_id_of(line.garden_id, find, "garden_id"),
        run_id=_name(line.run_id, "run_id"),
    )
    return RestateNote(payload=payload, actor=actor_of(line.applied_by, "applied_by"))


def summary_intent(line: SummaryLine, value_bytes_max: int, find: FindGarden) -> RestateBatch:
    """Restate a summary. Raises LineError."""
    period = period_of_name(line.name)
    if period is None:
        raise LineError(f"{line.name!r} is no name of a summary", "name")
    garden_id = garden_id_of(line.garden_id, find, "garden_id")
    made = {item.key for item in line.then if isinstance(item, AssertLine)}
    if made - set(line.facts):
        raise LineError("states a fact that is no paragraph of it", "then")
    modified = line.modified_at
    payload = SummaryRecorded(
        name=line.name,
        tier=period.tier,
        period_start=period.start.isoformat(),
        owner=line_uri(line.owner, "owner"),
        scope=line.scope,
        garden_id=garden_id,
        fact_ids=list(line.facts),
        retracted=list(line.retracted),
        removed=line.removed,
        modified_us=None if modified is None else line_instant(modified, "modified_at"),
        size=line.size,
    )
    return RestateBatch(
        payload=payload,
        then=_then(line, garden_id, value_bytes_max),
        actor=actor_of(line.recorded_by, "recorded_by"),
    )


def actor_of(text: str | None, where: str) -> str | None:
    """Who did it, in stored form. Raises LineError."""
    return None if text is None else line_uri(text, where)


def _applied(item: DeltaItem, place: str) -> AppliedDelta:
    if not 0 <= item.confidence <= 1:
        raise LineError("must be from 0 to 1", f"{place}.confidence")
    if not item.rule_id:
        raise LineError("must not be empty", f"{place}.rule_id")
    if not 1 <= len(item.source_episode_ids) <= SOURCES_MAX:
        raise LineError(f"must be 1 to {SOURCES_MAX}", f"{place}.source_episode_ids")
    if len(item.replaces) > REPLACES_MAX:
        raise LineError(f"must be at most {REPLACES_MAX}", f"{place}.replaces")
    return AppliedDelta(
        delta_id=_named(item.delta_id, f"{place}.delta_id"),
        delta=item.kind,
        user=_part(item.user, f"{place}.user"),
        agent=_part(item.agent, f"{place}.agent"),
        rule_id=item.rule_id,
        source_episode_ids=list(item.source_episode_ids),
        promotion_us=line_instant(item.promotion_ts, f"{place}.promotion_ts"),
        confidence=item.confidence,
        replaces=list(item.replaces),
        name=_name(item.name, f"{place}.name"),
        subject=item.subject,
        predicate=item.predicate,
        fact_id=item.fact,
        retracted=list(item.retracted),
        payload=item.payload,
        provenance=item.provenance,
        lineage=item.lineage,
    )


def _then(
    line: DeltasLine | SummaryLine, garden_id: str | None, value_bytes_max: int
) -> tuple[RestatedFact, ...]:
    """What the line stated and ended, of its own scope or garden. Raises LineError."""
    made: list[RestatedFact] = []
    for number, item in enumerate(line.then):
        place = f"then.{number}"
        try:
            made.append(_restated(item, line, garden_id, value_bytes_max))
        except LineError as fault:
            where = f"{place}.{fault.field}" if fault.field else place
            raise LineError(fault.message, where) from fault
    return tuple(made)


def _restated(
    item: AssertLine | RetractLine,
    line: DeltasLine | SummaryLine,
    garden_id: str | None,
    value_bytes_max: int,
) -> RestatedFact:
    if isinstance(item, RetractLine):
        return RestatedFact(ends=item.target or item.id or "", reason=item.reason)
    if item.key is None:
        raise LineError("is needed", "key")
    if item.scope != line.scope or item.garden_id != line.garden_id:
        raise LineError("must lie where the line does", "scope")
    if item.confidence == 0.0:
        raise LineError("must be above 0", "confidence")
    fact = replace(assert_intent(item, value_bytes_max), garden_id=garden_id)
    return RestatedFact(key=item.key, fact=fact)


def _part(text: str, where: str) -> str:
    try:
        return name_part(where, text)
    except MemoryScopeError as fault:
        raise LineError(fault.reason, where) from fault


def _named(text: str, where: str) -> str:
    if not 0 < len(text.encode()) <= PART_BYTES_MAX:
        raise LineError(f"must have 1 to {PART_BYTES_MAX} bytes", where)
    return text


def _name(text: str | None, where: str) -> str | None:
    return None if text is None else _named(text, where)
