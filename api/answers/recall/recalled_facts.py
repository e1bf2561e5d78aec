"""Recalled facts in the form of full answers. An answer contains a record four times, so the record
is encoded once and its bytes are joined."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.recall.recall_answer import ScoredFact
from engramlog.api.http.bodies import encoded
from engramlog.projections.recall.answer import Recalled
from engramlog.projections.recall.ranking.breakdown import ScoreBreakdown

_lines = msgspec.json.Encoder(enc_hook=str).encode_lines


class _Beside(Struct, gc=False):
    """The fields after a record's own in the seed's shape. ``hops``: its name (§20.3.5) of
    ``hop_distance``."""

    derived_from_hashes: list[str]
    score: float
    score_breakdown: ScoreBreakdown
    hop_distance: int
    hops: int
    token_estimate: int
    fact: Raw
    why: tuple[str, ...]
    from_card: bool
    card_stale: bool
    found_by: str
    provenance_of: str | UnsetType = UNSET
    explain: dict[str, Any] | UnsetType = UNSET


def scored_facts(records: Sequence[bytes], results: Sequence[Recalled]) -> list[ScoredFact]:
    """The protocol's shape: the record next to its score."""
    return [
        ScoredFact(
            Raw(record), each.score, each.breakdown, each.hop_distance, each.token_estimate,
            each.from_card,
        )
        for record, each in zip(records, results, strict=True)
    ]  # fmt: skip


def flat_facts(
    records: Sequence[bytes],
    results: Sequence[Recalled],
    additions: Sequence[dict[str, Any]],
    stale: Collection[int],
) -> list[Raw]:
    """The seed's shape: the record with score and reasons as further fields.

    Args:
        additions: fields from the profile (``enrichment``); none has a record's name.
        stale: slots of facts that the entity's card contradicts.
    """
    others = encoded_each(
        _beside(record, each, stale) for record, each in zip(records, results, strict=True)
    )
    found = map(_joined, records, others)
    return [
        Raw(_joined(flat, encoded(more)) if more else flat)
        for flat, more in zip(found, additions, strict=True)
    ]


def _beside(record: bytes, each: Recalled, stale: Collection[int]) -> _Beside:
    hashes: list[str] = []
    if each.row.parents_json != "[]":
        hashes = [parent.hash for parent in each.row.derived_from]
    return _Beside(
        hashes, each.score, each.breakdown, each.hop_distance,
        each.hop_distance, each.token_estimate, Raw(record), each.why, each.from_card,
        each.slot in stale, each.found_by,
        UNSET if each.provenance_of is None else each.provenance_of,
        UNSET if each.explain is None else each.explain,
    )  # fmt: skip


def encoded_each(items: Iterable[FactRecord | _Beside]) -> list[bytes]:
    """The JSON of each, by one call. A line feed within it is escaped."""
    return _lines(items).split(b"\n")[:-1]


def _joined(first: bytes, second: bytes) -> bytes:
    """One JSON object with the fields of two."""
    return b"%b,%b" % (first[:-1], second[1:])
