"""Memory of conversations: episodes, deltas, consolidation rules and their runs, summaries."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import (
    AnyName,
    EpisodeKey,
    GardenId,
    InstantUs,
    Payload,
    Prose,
    Scope,
)

DeltaKind: TypeAlias = Literal["add", "update", "delete", "noop"]


class EpisodeRecorded(Payload, frozen=True, gc=False, tag="episode_recorded"):
    """Something happened in a session of an agent with a user. Its key is the event id; ``id`` is
    the recorder's name for it, unique among the episodes of its scope or garden. ``at_us``: when it
    happened, microseconds UTC. ``run_id`` and ``step``: the agent's run that produced it."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "episode"
    user: str
    session: str
    agent: str
    content: str
    at_us: int
    scope: Scope
    garden_id: str | None = None
    id: str | None = None
    source_node: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    step: int | None = None


class AppliedDelta(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One typed delta and its outcome. ``fact_asserted`` has the fact's content; ``payload`` holds
    only the rest of the delta's payload.

    ``name`` is the fact's id in the delta. ``subject`` and ``predicate`` are the delta's words for
    entity and relation. ``fact_id`` is the fact, ``retracted`` the facts that ``replaces`` named.
    ``lineage``: for a delta without source episodes.
    """

    delta_id: str
    delta: DeltaKind
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[str]
    promotion_us: int
    confidence: float = 1.0
    replaces: list[str] = field(default_factory=list)
    name: str | None = None
    subject: str | None = None
    predicate: str | None = None
    fact_id: str | None = None
    retracted: list[str] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    lineage: list[dict[str, Any]] = field(default_factory=list)


class DeltaApplied(Payload, frozen=True, tag="delta_applied"):
    """Deltas of one scope or garden that were applied together. The events that state and retract
    their facts follow, caused by this one. ``run_id``: the run that emitted them."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "deltas"
    scope: Scope
    deltas: list[AppliedDelta]
    garden_id: str | None = None
    run_id: str | None = None


class SummaryRecorded(Payload, frozen=True, tag="summary_recorded"):
    """A Markdown summary of a day, week or quarter has these paragraphs from now on.

    ``name`` is its path in the summaries' folder, ``period_start`` the first day (``YYYY-MM-DD``).
    ``fact_ids``: the paragraphs' facts, in order. Events caused by this one state the new ones and
    end those in ``retracted``. ``modified_us`` and ``size``: of the file, if it was one, in
    microseconds and bytes.
    """

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "summary"
    name: str
    tier: Literal["daily", "weekly", "quarterly"]
    period_start: str
    owner: str
    scope: Scope
    garden_id: str | None = None
    fact_ids: list[str] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    removed: bool = False
    modified_us: int | None = None
    size: int | None = None


class DeltaRejected(Payload, frozen=True, tag="delta_rejected"):
    """A delta was rejected, with the reason; it wrote nothing."""

    line: ClassVar[str] = "rejected"
    scope: Scope
    delta_id: str
    delta: DeltaKind
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[AnyName]
    reason: str
    replaces: list[AnyName] = field(default_factory=list)
    message: Prose = ""
    garden_id: GardenId | None = None
    run_id: str | None = None


class EpisodeAccessed(Payload, frozen=True, tag="episode_accessed"):
    """Episodes (by key) were read; salience counts from the last read."""

    line: ClassVar[str] = "look"
    episodes: list[EpisodeKey]
    at_us: InstantUs


class ConsolidationRuleSet(Payload, frozen=True, tag="consolidation_rule_set"):
    """A consolidation rule was installed, or removed if ``document`` is null."""

    line: ClassVar[str] = "rule"
    rule_id: str
    document: dict[str, Any] | None = None


class SetAsideEpisode(Struct, frozen=True):
    """An episode (by key) that a rule could not use, with the reason."""

    episode: str
    reason: str


class ConsolidationRan(Payload, frozen=True, tag="consolidation_ran"):
    """A rule read the episodes after ``from_position`` up to ``to_position``. Long runs leave
    several of these with one ``run_id``. ``replay`` marks a repetition, which moves no watermark.
    ``scheduled_us``: the timetable's instant for it."""

    line: ClassVar[str] = "run"
    rule_id: str
    run_id: str
    from_position: int
    to_position: int
    at_us: int
    trigger: Literal["manual", "every", "cron"] = "manual"
    asked_by: str | None = None
    scheduled_us: int | None = None
    replay: bool = False
    episodes: int = 0
    applied: int = 0
    known: int = 0
    rejected: int = 0
    gated: int = 0
    quarantined: list[SetAsideEpisode] = field(default_factory=list)
