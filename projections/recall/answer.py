"""The answer of recall: plain data, which the API turns into the protocol's shapes."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.cards.source import Served
from engramlog.projections.moment import Moment
from engramlog.projections.recall.question_intent import SkipReason
from engramlog.projections.recall.ranking.breakdown import ScoreBreakdown
from engramlog.projections.recall.stages.candidates import StageOutcome
from engramlog.projections.tables.facts.fact_rows import FactRow


class Recalled(Struct, frozen=True):
    """One packed fact.

    Attributes:
        slot: its slot in the question's view.
        row: the fact as the log recorded it.
        score: the final score; it orders the facts, apart from diversity.
        breakdown: the protocol's six numbers: normalised stage scores (0 if a stage did not find
            the fact), trust, the recency factor (0 without one), and the score before scaling;
            plus the factors of that score (``ranking.breakdown``).
        hop_distance: hops from a seed, 0 for direct hits.
        token_estimate: its cost in the budget.
        confidence, source_trust, effective_confidence: at the Moment.
        contradicted: whether a visible sibling has another value.
        why: reasons in words, one per stage that found it.
        provenance_of: id of the packed fact whose parent this is, if only that brought it in.
        explain: every number behind the score, on request.
        from_card: the card that replaces facts; ``slot`` is of the best of them.
        attributes: the fact's attributes at the Moment; None if it has none.
        found_by: the first stage that found it, by its label, and the part of the stage.
        recalls, idle_us: how often earlier recalls returned it, and the time (microseconds)
            since the last of them or since its recording; only if the profile needs it.
    """

    slot: int
    row: FactRow
    score: float
    breakdown: ScoreBreakdown
    hop_distance: int
    token_estimate: int
    confidence: float
    source_trust: float
    effective_confidence: float
    contradicted: bool
    why: tuple[str, ...]
    provenance_of: str | None = None
    explain: dict[str, Any] | None = None
    from_card: bool = False
    attributes: FactAttributes | None = None
    found_by: str = ""
    recalls: int = 0
    idle_us: int = 0


class RecallAnswer(Struct, frozen=True):
    """The packed facts and how they were chosen.

    Attributes:
        total_scored: facts that were scored, packed or not.
        tokens_used: sum of the token estimates; at most the budget.
        truncated: whether a scored fact was left out.
        weights: the weights used, after redistributing those of stages that did not complete.
        card: of the request's entity, if it has one.
        short_circuit_after: the stage whose hits were enough to skip others.
        evidence: ``strong`` if a fact holds every keyword or means nearly the same, ``weak`` if
            none does, ``none`` without any fact; None if no stage can tell.
        answerable: the chance that the memory knows an answer; None if the profile cannot tell.
        enrichment: notes beside the facts (see ``enrichment``).
        dropped_terms: terms of an ambient question that too many facts hold.
        skipped: why no search ran, if none did.
    """

    results: tuple[Recalled, ...]
    total_scored: int
    tokens_used: int
    truncated: bool
    stages: tuple[StageOutcome, ...]
    weights: dict[str, float]
    profile: str
    moment: Moment
    card: Served | None = None
    short_circuit_after: str | None = None
    evidence: str | None = None
    answerable: float | None = None
    enrichment: tuple[str, ...] = ()
    dropped_terms: tuple[str, ...] = ()
    skipped: SkipReason | None = None

    @property
    def weak_evidence(self) -> bool | None:
        """Whether no fact holds every keyword or means nearly the same."""
        return None if self.evidence is None else self.evidence != "strong"


Change = Literal["same", "moved", "gone", "new"]


class RankedFact(Struct, frozen=True):
    """A fact in an answer; its rank counts from 1."""

    fact_id: str
    rank: int
    score: float


class Compared(Struct, frozen=True):
    """A fact of either answer. ``then`` or ``now`` is None if that answer lacks it."""

    fact_id: str
    change: Change
    then: RankedFact | None
    now: RankedFact | None


def compare(then: Sequence[RankedFact], now: Sequence[RankedFact]) -> list[Compared]:
    """Every fact of both answers: those of ``now`` in its order, then those only in ``then``. A
    fact is ``same`` if its rank is; scores may differ."""
    earlier = {each.fact_id: each for each in then}
    compared = [_compare_present(each, earlier.get(each.fact_id)) for each in now]
    present = {each.fact_id for each in now}
    gone = [Compared(each.fact_id, "gone", each, None) for each in then]
    return compared + [each for each in gone if each.fact_id not in present]


def _compare_present(now: RankedFact, then: RankedFact | None) -> Compared:
    if then is None:
        return Compared(now.fact_id, "new", None, now)
    return Compared(now.fact_id, "same" if then.rank == now.rank else "moved", then, now)
