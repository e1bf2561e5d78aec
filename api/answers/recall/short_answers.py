"""The short shapes of a recall's answer: ``facts`` for programs, ``compact`` for models."""

from typing import Any

import msgspec

from engramlog.api.answers.compact_facts import packed_lines, statement
from engramlog.api.answers.fact_record import FactRecord, wire_moment
from engramlog.api.answers.recall.recall_answer import RecalledLines, ScoredShortFact, ShortRecords
from engramlog.api.schemas.recall import TOKEN_BUDGET_MAX, RecallBody
from engramlog.projections.recall.answer import RecallAnswer

NOTHING = "The memory holds nothing on this."
WEAK = "Weak evidence: none of these may answer the question."


def roomy(body: RecallBody) -> RecallBody:
    """The question with twice its budget. Lines are shorter than the values that the profile
    counts; packing the lines applies the budget again."""
    return body.model_copy(update={"token_budget": min(2 * body.token_budget, TOKEN_BUDGET_MAX)})


def compact_answer(
    body: RecallBody, found: RecallAnswer, records: list[FactRecord], extra: dict[str, Any]
) -> tuple[RecallAnswer, RecalledLines]:
    """One text within the budget, and the answer reduced to its facts."""
    hint = extra["hint"]
    notes = [] if found.results else [NOTHING]
    notes += [WEAK] if found.results and found.weak_evidence else []
    notes += [hint["message"]] if hint else []
    notes += extra["warnings"]
    text = packed_lines(records, body.token_budget, notes)
    kept = tuple(found.results[index] for index in text.kept)
    found = msgspec.structs.replace(
        found,
        results=kept,
        tokens_used=text.tokens,
        truncated=found.truncated or len(kept) < len(records),
    )
    return found, RecalledLines(text.text, len(kept), **_around(body, found, extra))


def facts_answer(
    body: RecallBody, found: RecallAnswer, records: list[FactRecord], extra: dict[str, Any]
) -> ShortRecords:
    """Each fact once, with its score."""
    facts = [
        ScoredShortFact(*statement(record), score=each.score)
        for record, each in zip(records, found.results, strict=True)
    ]
    return ShortRecords(facts, **_around(body, found, extra))


def _around(body: RecallBody, found: RecallAnswer, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "total_scored": found.total_scored,
        "token_budget": body.token_budget,
        "tokens_used": found.tokens_used,
        "truncated": found.truncated,
        "weak_evidence": found.weak_evidence,
        "moment": wire_moment(found.moment),
        "receipt_id": extra["receipt_id"],
        "hint": extra["hint"],
        "warnings": extra["warnings"],
    }
