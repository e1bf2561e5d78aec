"""Receipts of recalls, and the answer to a receipt's question today."""

from typing import Any

from msgspec import Struct

from engramlog.api.answers.fact_record import FactRecord, MomentRecord


class AskedMoment(MomentRecord):
    """A moment, with a separate instant of validity if requested."""

    valid_at: str | None


class ReturnedFact(Struct):
    """A fact that a recall returned."""

    fact_id: str
    rank: int | None
    score: float | None
    from_card: bool


class RecalledStage(Struct):
    """The outcome of a stage."""

    name: str
    status: str


class Receipt(Struct):
    """A recall's question and answer; ``position`` is null until the log has it."""

    receipt_id: str
    principal: str
    query: str
    request: dict[str, Any]
    profile: str
    profile_digest: str
    moment: AskedMoment
    answered_at: str
    position: int | None
    returned: list[ReturnedFact]
    stages: list[RecalledStage]
    total_scored: int | None
    tokens_used: int | None
    truncated: bool | None
    counted: bool


class ReceiptPage(Struct):
    """Receipts, newest first."""

    receipts: list[Receipt]
    cursor: str | None


class ReplayedThen(Struct):
    """The answer at the receipt's own moment. ``faithful``: whether it equals the recorded one;
    null for a receipt of another caller. ``reasons``: why it differs."""

    moment: AskedMoment
    faithful: bool | None
    reasons: list[str]


class ReplayedNow(Struct):
    """The present answer."""

    moment: AskedMoment


class ComparedFact(Struct):
    """A fact of either answer, with its ranks then and now. Ranks count from 1."""

    fact_id: str
    change: str
    rank_then: int | None
    score_then: float | None
    rank_now: int | None
    score_now: float | None
    fact: FactRecord | None


class ReplayedRecall(Struct):
    """A receipt's question, repeated; ``facts`` compares the answers at its moment and now."""

    receipt_id: str
    query: str
    profile: str
    then: ReplayedThen
    now: ReplayedNow
    counts: dict[str, int]
    facts: list[ComparedFact]
