"""A recall's answer, in its full and its short shapes."""

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from engramlog.api.answers.erasure_records import TombstoneNotice
from engramlog.api.answers.fact_record import MomentRecord, ShortFact
from engramlog.api.commands.memory_cards import MemoryCard
from engramlog.projections.recall.ranking.breakdown import ScoreBreakdown

EncodedRecord: TypeAlias = Annotated[
    Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/FactRecord"})
]
"""An encoded ``FactRecord``: an answer contains it up to four times."""
EncodedObject: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]


class ScoredFact(Struct):
    """A recalled fact in the protocol's nested shape."""

    fact: EncodedRecord
    score: float
    score_breakdown: ScoreBreakdown
    hop_distance: int
    token_estimate: int
    from_card: bool


class StageRun(Struct):
    """The outcome of a stage. ``detail``: the reason, if not obvious; ``label``: its name in the
    profile."""

    name: str
    status: str
    hits: int
    milliseconds: float
    detail: str
    label: str


class EmbeddingUsed(Struct):
    """Whether recall compared meanings, and with which model."""

    enabled: bool
    model: str | None


class RecallResponse(Struct, kw_only=True):
    """The union of every published shape; see the protocol notes in the docs."""

    recall_id: str
    query_hash: str
    facts: list[ScoredFact]
    content: list[ScoredFact] | UnsetType = UNSET
    instructions: list[ScoredFact] | UnsetType = UNSET
    total_scored: int
    token_budget: int
    tokens_used: int
    truncated: bool
    tombstone_notices: list[TombstoneNotice]
    chain_proof: dict[str, Any] | None
    results: list[EncodedObject]
    query: str
    request: dict[str, Any]
    generated_at: str
    token_budget_used: int
    memory_card: MemoryCard | None
    card_stale: bool
    force_refresh_timeout: bool
    scores_debug: Any
    embedding: EmbeddingUsed
    profile: str
    weights: dict[str, float]
    stages: list[StageRun]
    short_circuit_after: str | None
    evidence: str | None
    weak_evidence: bool | None
    search_skipped: bool
    search_skipped_reason: str | None
    dropped_terms: list[str]
    moment: MomentRecord
    receipt_id: str | None
    hint: dict[str, Any] | None
    warnings: list[str]


class ShortRecall(Struct, kw_only=True):
    """The fields that both short shapes share besides the facts."""

    total_scored: int
    token_budget: int
    tokens_used: int
    truncated: bool
    weak_evidence: bool | None
    moment: MomentRecord
    receipt_id: str | None
    hint: dict[str, Any] | None
    warnings: list[str]


class RecalledLines(ShortRecall):
    """A recall as text (``fields=compact``)."""

    text: str
    returned: int


class ScoredShortFact(ShortFact, kw_only=True):
    """A recalled fact's statement and score."""

    score: float


class ShortRecords(ShortRecall):
    """A recall of short records (``fields=facts``)."""

    facts: list[ScoredShortFact]
