"""Recalled facts in the form of full answers. An answer contains a record four times, so the record
is encoded once and its bytes are joined."""

from typing import Any

from msgspec import Raw, Struct

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.recall.recall_answer import ScoreBreakdown, ScoredFact
from engramlog.api.http.bodies import encoded
from engramlog.projections.recall.answer import Recalled


class RecalledJson(Struct, frozen=True):
    """``item``: the protocol's shape, the record next to its score. ``flat``: the seed's shape, the
    record with score and reasons as further fields."""

    item: ScoredFact
    flat: Raw
    instructs: bool


def recalled_json(
    record: FactRecord, each: Recalled, beside: dict[str, Any], *, stale: bool
) -> RecalledJson:
    """Both shapes of one fact.

    Args: record: as this answer shows it.
        beside: fields from the profile (``enrichment``); none has a record's name.
        stale: whether the entity's card contradicts it.
    """
    fact = encoded(record)
    item = ScoredFact(
        fact=Raw(fact),
        score=each.score,
        score_breakdown=ScoreBreakdown(**each.breakdown),
        hop_distance=each.hop_distance,
        token_estimate=each.token_estimate,
        from_card=each.from_card,
    )
    parents = [] if each.row.parents_json == "[]" else each.row.derived_from
    flat: dict[str, Any] = {
        "derived_from_hashes": [parent.hash for parent in parents],
        "score": item.score,
        "score_breakdown": item.score_breakdown,
        "hop_distance": item.hop_distance,
        "hops": item.hop_distance,  # the seed's name (§20.3.5)
        "token_estimate": item.token_estimate,
        "fact": item.fact,
        "why": each.why,
        "from_card": each.from_card,
        "card_stale": stale,
        "found_by": each.found_by,
    }
    if each.provenance_of is not None:
        flat["provenance_of"] = each.provenance_of
    if each.explain is not None:
        flat["explain"] = each.explain
    flat |= beside
    instructs = record.value.interpret_as == "instruction"
    return RecalledJson(item, Raw(_joined(fact, encoded(flat))), instructs)


def _joined(first: bytes, second: bytes) -> bytes:
    """One JSON object with the fields of two."""
    return b"%b,%b" % (first[:-1], second[1:])
