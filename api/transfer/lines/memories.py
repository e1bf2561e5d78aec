"""Lines of an import file about episodes, deltas, summaries and rules' runs, and their commands.

Another log applied the deltas: a line has their outcome, and the import decides nothing. ``then``
has their stated and ended facts in order, as lines. A run names its episodes by the file's keys:
positions of the other log become the positions of these episodes here.
"""

from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.memory import DELTAS_MAX, EpisodeBody
from engramlog.api.transfer.lines.base import Line, LineError, line_error, line_instant, line_uri
from engramlog.api.transfer.lines.declarations import Destination
from engramlog.api.transfer.lines.facts import AssertLine, RetractLine, stated_fact
from engramlog.api.transfer.lines.payload_commands import given_name, named, part
from engramlog.eventlog.kinds import (
    AnyName,
    AppliedDelta,
    ConsolidationRan,
    DeltaApplied,
    DeltaKind,
    EpisodeKey,
    EpisodeRecorded,
    FactId,
    Scope,
    SetAsideEpisode,
    SummaryRecorded,
)
from engramlog.projections.episodes.delta import REPLACES_MAX, SOURCES_MAX
from engramlog.projections.memories.summary_naming import period_of_name
from engramlog.projections.writing.commands import Command, OnBehalf
from engramlog.projections.writing.memory_commands import RecordEpisodes, RestateBatch, RestatedFact


class EpisodeLine(Line, frozen=True, kw_only=True, tag="episode"):
    """Something that happened in a session. ``id``: its recorder's name for it, ``key`` the file's;
    ``timestamp``: when; ``recorded_by``: its source."""

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


class DeltaItem(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One delta and its outcome: ``fact``: the fact that it stated or found, ``retracted`` those it
    ended, by key. ``name``: the fact's name in the delta."""

    delta_id: str
    kind: DeltaKind
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[AnyName]
    promotion_ts: str
    confidence: float = 1.0
    replaces: list[AnyName] = field(default_factory=list)
    name: str | None = None
    subject: str | None = None
    predicate: str | None = None
    fact: FactId | None = None
    retracted: list[FactId] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    lineage: list[dict[str, Any]] = field(default_factory=list)


class DeltasLine(Line, frozen=True, kw_only=True, tag="deltas"):
    """Deltas of one scope or garden that were applied together, with their facts."""

    deltas: list[DeltaItem]
    scope: Scope = "local"
    garden_id: str | None = None
    run_id: str | None = None
    applied_by: str | None = None
    then: list[AssertLine | RetractLine] = field(default_factory=list)


class SummaryLine(Line, frozen=True, kw_only=True, tag="summary"):
    """Sets a summary's paragraphs (facts, by key), or removes it (``removed``)."""

    name: str
    owner: str
    facts: list[FactId] = field(default_factory=list)
    retracted: list[FactId] = field(default_factory=list)
    scope: Scope = "local"
    garden_id: str | None = None
    removed: bool = False
    modified_at: str | None = None
    size: int | None = None
    recorded_by: str | None = None
    then: list[AssertLine | RetractLine] = field(default_factory=list)


class SetAside(Struct, frozen=True, forbid_unknown_fields=True):
    """An episode (by key) that a rule set aside, and the reason."""

    episode: EpisodeKey
    reason: str


class RunLine(Line, frozen=True, kw_only=True, tag="run"):
    """A rule read the episodes behind ``after`` up to ``through`` (keys; null: the beginning).

    The counts are the episodes' outcomes; ``again`` marks a repetition, which does not move the
    watermark.
    """

    rule_id: str
    run_id: str
    at: str
    after: EpisodeKey | None = None
    through: EpisodeKey | None = None
    trigger: Literal["manual", "every", "cron"] = "manual"
    asked_by: str | None = None
    scheduled_at: str | None = None
    again: bool = False
    episodes: int = 0
    applied: int = 0
    known: int = 0
    rejected: int = 0
    gated: int = 0
    set_aside: list[SetAside] = field(default_factory=list)


def episode_command(line: EpisodeLine, node: Destination) -> EpisodeRecorded:
    """The episode of a line. Raises LineError."""
    names = ("user", "session", "agent", "content", "timestamp", "id", "source_node", "metadata",
             "run_id", "step")  # fmt: skip
    try:
        body = EpisodeBody.model_validate({name: getattr(line, name) for name in names})
    except ValidationError as fault:
        raise line_error(fault) from fault
    if len(body.content.encode()) > node.value_bytes_max:
        raise LineError(f"is over {node.value_bytes_max} bytes", "content")
    return body.recorded(
        line_instant(line.timestamp, "timestamp"),
        line.scope,
        node.garden_id(line.garden_id, "garden_id"),
    )


def recording_of(line: EpisodeLine, node: Destination) -> Command:
    """Record the episode of a line. Raises LineError."""
    recording = RecordEpisodes(episodes=(episode_command(line, node),))
    return _by(line.recorded_by, "recorded_by", recording)


def deltas_command(line: DeltasLine, node: Destination) -> Command:
    """Restate a batch of deltas. Raises LineError."""
    if not 1 <= len(line.deltas) <= DELTAS_MAX:
        raise LineError(f"must have 1 to {DELTAS_MAX} entries", "deltas")
    garden_id = node.garden_id(line.garden_id, "garden_id")
    applied = [_applied(item, f"deltas.{number}") for number, item in enumerate(line.deltas)]
    made = {item.key for item in line.then if isinstance(item, AssertLine)}
    loose = made - {item.fact for item in line.deltas}
    if loose:
        raise LineError("states a fact that no delta names", "then")
    payload = DeltaApplied(
        scope=line.scope,
        deltas=applied,
        garden_id=garden_id,
        run_id=given_name("run_id", line.run_id),
    )
    batch = RestateBatch(payload=payload, then=_then(line, garden_id, node.value_bytes_max))
    return _by(line.applied_by, "applied_by", batch)


def summary_command(line: SummaryLine, node: Destination) -> Command:
    """Restate a summary. Raises LineError."""
    period = period_of_name(line.name)
    if period is None:
        raise LineError(f"{line.name!r} is not the name of a summary", "name")
    garden_id = node.garden_id(line.garden_id, "garden_id")
    made = {item.key for item in line.then if isinstance(item, AssertLine)}
    if made - set(line.facts):
        raise LineError("states a fact that is not one of its paragraphs", "then")
    modified = line.modified_at
    payload = shaped(
        line,
        SummaryRecorded,
        tier=period.tier,
        period_start=period.start.isoformat(),
        owner=line_uri(line.owner, "owner"),
        garden_id=garden_id,
        fact_ids=line.facts,
        modified_us=None if modified is None else line_instant(modified, "modified_at"),
    )
    batch = RestateBatch(payload=payload, then=_then(line, garden_id, node.value_bytes_max))
    return _by(line.recorded_by, "recorded_by", batch)


def _by(actor: str | None, where: str, command: Command) -> Command:
    return command if actor is None else OnBehalf(line_uri(actor, where), command)


def _applied(item: DeltaItem, place: str) -> AppliedDelta:
    if not 0 <= item.confidence <= 1:
        raise LineError("must be from 0 to 1", f"{place}.confidence")
    if not item.rule_id:
        raise LineError("must not be empty", f"{place}.rule_id")
    if not 1 <= len(item.source_episode_ids) <= SOURCES_MAX:
        raise LineError(f"must have 1 to {SOURCES_MAX} entries", f"{place}.source_episode_ids")
    if len(item.replaces) > REPLACES_MAX:
        raise LineError(f"must have at most {REPLACES_MAX} entries", f"{place}.replaces")
    return shaped(
        item,
        AppliedDelta,
        delta_id=named(f"{place}.delta_id", item.delta_id),
        delta=item.kind,
        user=part(f"{place}.user", item.user),
        agent=part(f"{place}.agent", item.agent),
        promotion_us=line_instant(item.promotion_ts, f"{place}.promotion_ts"),
        name=given_name(f"{place}.name", item.name),
        fact_id=item.fact,
    )


def _then(
    line: DeltasLine | SummaryLine, garden_id: str | None, value_bytes_max: int
) -> tuple[RestatedFact, ...]:
    """The facts that the line states and ends, in its scope or garden. Raises LineError."""
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
        raise LineError("must equal the line's", "scope")
    if item.confidence == 0.0:
        raise LineError("must be above 0", "confidence")
    fact = replace(stated_fact(item, value_bytes_max), garden_id=garden_id)
    return RestatedFact(key=item.key, fact=fact)


def run_command(line: RunLine, node: Destination) -> Command:
    """Note a rule's progress. Raises LineError."""
    after, through = (_position(name, getattr(line, name), node) for name in ("after", "through"))
    if after > through:
        raise LineError("must not be before after", "through")
    for name in ("episodes", "applied", "known", "rejected", "gated"):
        if getattr(line, name) < 0:
            raise LineError("must not be negative", name)
    scheduled = line.scheduled_at
    return shaped(
        line,
        ConsolidationRan,
        from_position=after,
        to_position=through,
        at_us=line_instant(line.at, "at"),
        scheduled_us=None if scheduled is None else line_instant(scheduled, "scheduled_at"),
        replay=line.again,
        quarantined=[SetAsideEpisode(each.episode, each.reason) for each in line.set_aside],
    )


def _position(name: str, episode: str | None, node: Destination) -> int:
    if episode is None:
        return 0
    position = node.position_of(episode)
    if position is None:
        raise LineError(f"no episode {episode!r}", name)
    return position
