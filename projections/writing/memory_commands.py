"""Commands about episodes, summaries, deltas and memories (see ``commands``)."""

from typing import TYPE_CHECKING

from msgspec import Struct, field

from engramlog.eventlog.kinds import (
    ConsolidationRan,
    DeltaApplied,
    EpisodeRecorded,
    FactAsserted,
    SummaryRecorded,
)
from engramlog.projections.episodes.delta import Proposal
from engramlog.projections.memories.deduplication_rules import TextLikeness
from engramlog.projections.writing.commands import AssertFact, OwnShape

if TYPE_CHECKING:
    from engramlog.projections.authorization import Authorization
else:  # it masks arrays, whose library commands that only write do without
    Authorization = object


class RecordEpisodes(OwnShape, frozen=True, kw_only=True):
    """Validated episodes (``episodes.place``) of one scope, or of one garden in it, oldest first.
    ``undated``: indices of those that came without an instant and so happened now; recorded again,
    they are repetitions at any time."""

    episodes: tuple[EpisodeRecorded, ...]
    rights: Authorization | None = None
    undated: frozenset[int] = frozenset()


class RecordSummary(OwnShape, frozen=True, kw_only=True):
    """Replace a summary's text from now on; ``text`` None removes the summary. ``name`` is its path
    in the summaries' folder (``summaries.naming``), ``owner`` (stored form) the source of its
    paragraphs."""

    name: str
    text: str | None
    owner: str
    scope: str
    garden_id: str | None = None
    modified_us: int | None = None
    size: int | None = None
    rights: Authorization | None = None


class ApplyDeltas(OwnShape, frozen=True, kw_only=True):
    """Deltas of one scope or garden, applied together.

    ``strict``: one conflict rejects all; otherwise each conflict rejects its own delta, and missing
    or retracted targets are ignored. ``bundle``: provenance of every fact they write.
    ``single_valued``: relations that refuse a second value.
    """

    scope: str
    proposals: tuple[Proposal, ...]
    garden_id: str | None = None
    run_id: str | None = None
    strict: bool = True
    single_valued: tuple[str, ...] = ()
    bundle: dict[str, str] = field(default_factory=dict[str, str])
    rights: Authorization | None = None
    """The caller's rights, also the authority over facts; None for rules, whose deltas end only
    facts of their own sources: any writer may record the episodes that they read."""


class Consolidate(OwnShape, frozen=True, kw_only=True):
    """Apply the deltas and record the run. Refused if another run was faster (the rule's watermark
    is no longer ``expected``), or if an erasure took some of the ``episodes`` (keys). The writer
    fills in the counts of ``run`` from the outcomes of the deltas."""

    apply: ApplyDeltas
    run: ConsolidationRan
    expected: int
    episodes: tuple[str, ...] = ()


class StoreMemory(OwnShape, frozen=True, kw_only=True):
    """State a memory, unless its owner has just said the same (``memory_rules``).

    Attributes:
        assertion: of the memory.
        rights: the caller's; unreadable memories have no influence.
        supersede: whether to end older memories that the new one replaces.
        likeness: compares texts with known vectors; None if nothing makes vectors.
    """

    assertion: AssertFact
    rights: Authorization
    supersede: bool = True
    likeness: TextLikeness | None = None


class MergeMemories(OwnShape, frozen=True, kw_only=True):
    """Replace the older of two memories by the newer. ``rights``: the caller's, who may write as
    the owner of both."""

    fact_ids: tuple[str, str]
    rights: Authorization


class RestatedFact(Struct, frozen=True, kw_only=True):
    """One effect of an event: a fact it stated, which the event calls ``key``, or one it ended
    (``ends``, a key or a fact id)."""

    key: str = ""
    fact: FactAsserted | None = None
    ends: str = ""
    reason: str = ""


class RestateBatch(OwnShape, frozen=True, kw_only=True):
    """Deltas or a summary from another log, with the facts that they stated and ended. A key of
    ``then`` in ``payload`` means the fact that this command states for it. Deltas that were already
    applied here are skipped. ``detail.facts``: fact ids by key."""

    payload: DeltaApplied | SummaryRecorded
    then: tuple[RestatedFact, ...] = ()
