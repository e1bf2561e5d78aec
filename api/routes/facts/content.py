"""Facts that the sanitizer flagged, its findings, and the decisions of admins."""

from typing import Literal

import numpy as np
from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.fact_record import FactRecord, Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.sanitizer_modes import Mode
from engramlog.api.answers.wire_facts import records_of
from engramlog.api.http.call import Call
from engramlog.api.http.errors import plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import REASON_LENGTH_MAX
from engramlog.api.schemas.values import Model, Position
from engramlog.eventlog.kinds import ContentReviewed
from engramlog.projections.arrays import I32
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.tables.facts.verdicts import ContentReview
from engramlog.projections.tables.facts.verdicts import reviews_of as content_reviews_of
from engramlog.projections.text.sanitizing import RULESET, holds_back
from engramlog.projections.writing.commands import ReviewContent

routes = Routes("content")

PAGE_FACTS_MAX = 200


class FlaggedQuery(Model, extra="allow"):
    """``before``: a position, from ``next_before`` of the previous page."""

    status: Literal["pending", "released", "kept", "all"] = "pending"
    limit: int = Field(default=50, ge=1, le=PAGE_FACTS_MAX)
    before: Position | None = Field(default=None, ge=1)


class ReviewRequest(Model, extra="allow"):
    """``release``: serve the fact again. ``keep``: withhold it for good."""

    decision: Literal["release", "keep"]
    reason: str = Field(default="", max_length=REASON_LENGTH_MAX)


Status = Literal["pending", "released", "kept"]
_STATUS_OF: dict[str | None, Status] = {None: "pending", "release": "released", "keep": "kept"}


class ReviewRecord(Struct):
    """An admin's decision on a flagged fact."""

    decision: str
    reason: str
    reviewer: str
    decided_at: str
    position: int


class FlaggedFact(Struct):
    """A fact as recorded, the sanitizer's findings in it, and the decision in force."""

    fact: FactRecord
    codes: list[str]
    status: Status
    review: ReviewRecord | None


class FlaggedPage(Warned):
    """Flagged facts, newest first; ``next_before`` is null on the last page."""

    flagged: list[FlaggedFact]
    next_before: int | None
    ruleset: int
    mode: Mode


class Reviewed(Warned):
    """``position`` is null if the decision was in force already."""

    fact_id: str
    decision: Literal["release", "keep"]
    status: Status
    position: int | None


_PAGE_SLOTS = 500


@routes.add("GET /v1/content/flagged", permission="admin")
def list_flagged(call: Call, query: FlaggedQuery) -> FlaggedPage:
    """Flagged facts that the caller may read, newest first, with their full text in every mode."""
    view = call.view()
    slots = view.flagged()
    slots = slots[call.caller.authorization.mask(view, slots)]
    if query.before is not None:
        slots = slots[view.from_position[slots] < query.before]
    slots = slots[::-1]
    found: list[FlaggedFact] = []
    for start in range(0, len(slots), _PAGE_SLOTS):
        found += _entries(call, view, slots[start : start + _PAGE_SLOTS], query.status)
        if len(found) > query.limit:
            break
    shown = found[: query.limit]
    return FlaggedPage(
        flagged=shown,
        next_before=shown[-1].fact.position if len(found) > query.limit else None,
        ruleset=RULESET,
        mode=call.service.settings.sanitizer_mode,
    )


def _entries(call: Call, view: View, slots: I32, status: str) -> list[FlaggedFact]:
    reader = call.node.reader
    codes = reader.codes(view.from_position[slots].tolist())
    sentinel = [
        slot for slot in slots.tolist() if holds_back(codes.get(int(view.from_position[slot]), ()))
    ]
    rights = call.caller.authorization
    records = records_of(
        reader,
        view,
        np.asarray(sentinel, dtype=np.int32),
        call.moment(view),
        rights,
        call.node.node_id,
    )
    reviews = reader.ask(content_reviews_of, [record.id for record in records])
    entries = [_entry(record, codes[record.position], reviews.get(record.id)) for record in records]
    return [each for each in entries if status in ("all", each.status)]


def _entry(record: FactRecord, codes: tuple[str, ...], review: ContentReview | None) -> FlaggedFact:
    record.sanitizer_warnings = list(codes)
    return FlaggedFact(
        fact=record,
        codes=list(codes),
        status=_STATUS_OF[None if review is None else review.decision],
        review=None if review is None else shaped(review, ReviewRecord, reviewer=review.actor),
    )


@routes.add("POST /v1/content/flagged/{fact_id}/review", permission="admin")
async def review(call: Call, request: ReviewRequest) -> Reviewed:
    """Release a flagged fact that the caller may read, or keep it withheld."""
    fact_id = call.segment("fact_id")
    if not readable_of(call.view(), call.caller.authorization.alone(), [fact_id]):
        raise plain("fact_not_found")
    command = ReviewContent(
        review=ContentReviewed(fact_id=fact_id, decision=request.decision, reason=request.reason),
        rights=call.authorization,
    )
    done = await call.do(command)
    return Reviewed(fact_id, request.decision, _STATUS_OF[request.decision], done.position)
