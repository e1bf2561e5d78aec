"""Lines of an import file that say something of facts which are there: attributes, judgements,
feedback, recalls. Facts go by key."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from api.fact_lines import stated_attributes_of
from api.garden_lines import FindGarden, garden_of
from api.line_base import Line, LineError, line_instant
from eventlog.kinds import MemoriesMerged, QuarantineReviewed, RecallUse
from projections.intents import (
    GiveFeedback,
    RestateNote,
    ReviewContent,
    SetAttributes,
    TrackRecalls,
)
from projections.normalization import SCOPES


class AttributesLine(Line, frozen=True, kw_only=True, tag="attributes"):
    """All attributes of a fact from here on; the fact by key (``target``) or ``id``."""

    attributes: dict[str, Any]
    target: str | None = None
    id: str | None = None


class ReviewLine(Line, frozen=True, kw_only=True, tag="review"):
    """Somebody looked at a fact that the sanitizer flagged: ``release`` it, or ``keep`` it back."""

    decision: Literal["release", "keep"]
    target: str | None = None
    id: str | None = None
    reason: str = ""


class JudgedLine(Line, frozen=True, kw_only=True, tag="judged"):
    """A fact in a quarantine garden (slug) was admitted or rejected. Lines before this one ended
    it there and, where admitted, stated it as ``admitted`` (in the garden ``to``, if any)."""

    target: str
    garden: str
    decision: Literal["admitted", "rejected"]
    reason: str = ""
    to: str | None = None
    admitted: str | None = None
    judged_by: str | None = None


class FeedbackLine(Line, frozen=True, kw_only=True, tag="feedback"):
    """Recalled facts were cited in an answer, or found wrong."""

    cited: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)


class Use(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How often a fact was recalled: the last time ``last``, ``earlier`` the times before."""

    fact: str
    count: int
    last: str
    earlier: list[str] = field(default_factory=list)


class RecalledLine(Line, frozen=True, kw_only=True, tag="recalled"):
    """Recalls returned these facts."""

    uses: list[Use]


class MergedLine(Line, frozen=True, kw_only=True, tag="merged"):
    """A memory counts as recalled, cited and rejected that much oftener, for those that lines
    before this one ended and whose place it takes; ``instants``: recalls to remember of it."""

    kept: str
    merged: list[str]
    recalls: int = 0
    instants: list[str] = field(default_factory=list)
    citations: int = 0
    rejections: int = 0


def attributes_intent(line: AttributesLine) -> SetAttributes:
    """Set all attributes of a fact. Raises LineError."""
    if line.id is None:
        raise LineError("needs target or id", "target")
    changes = msgspec.structs.asdict(stated_attributes_of(line.attributes))
    return SetAttributes(fact_id=line.id, changes=changes, scopes=frozenset(SCOPES), admin=True)


def review_intent(line: ReviewLine) -> ReviewContent:
    """Decide on a flagged fact. Raises LineError."""
    if line.id is None:
        raise LineError("needs target or id", "target")
    return ReviewContent(
        fact_id=line.id, decision=line.decision, scopes=frozenset(SCOPES), reason=line.reason
    )


def judged_intent(line: JudgedLine, find: FindGarden) -> RestateNote:
    """Note a judgement. Raises LineError."""
    if (line.decision == "admitted") != (line.admitted is not None):
        raise LineError("goes with decision admitted", "admitted")
    payload = QuarantineReviewed(
        fact_id=line.target,
        garden_id=garden_of(line.garden, find, "garden").id,
        decision=line.decision,
        reason=line.reason,
        target_garden_id=None if line.to is None else garden_of(line.to, find, "to").id,
        admitted_fact_id=line.admitted,
    )
    return RestateNote(payload=payload, actor=line.judged_by)


def merged_intent(line: MergedLine) -> RestateNote:
    """Note a merge. Raises LineError."""
    for name in ("recalls", "citations", "rejections"):
        if getattr(line, name) < 0:
            raise LineError("must not be negative", name)
    payload = MemoriesMerged(
        kept_id=line.kept,
        merged_ids=list(line.merged),
        recalls=line.recalls,
        instants_us=sorted(line_instant(each, "instants") for each in line.instants),
        citations=line.citations,
        rejections=line.rejections,
    )
    return RestateNote(payload=payload)


def feedback_intent(line: FeedbackLine) -> GiveFeedback:
    """Count feedback."""
    return GiveFeedback(cited=tuple(line.cited), rejected=tuple(line.rejected))


def recalled_intent(line: RecalledLine) -> TrackRecalls:
    """Count recalls. Raises LineError."""
    uses: list[RecallUse] = []
    for number, use in enumerate(line.uses):
        if use.count < 1:
            raise LineError("must be at least 1", f"uses.{number}.count")
        earlier = tuple(line_instant(each, f"uses.{number}.earlier") for each in use.earlier)
        last = line_instant(use.last, f"uses.{number}.last")
        uses.append(RecallUse(use.fact, use.count, last, earlier))
    return TrackRecalls(uses=tuple(uses))
