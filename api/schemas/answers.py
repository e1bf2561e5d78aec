"""The shapes of answers, for the API's description; tests hold the answers to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.attributes import Attributes
from engramlog.api.schemas.scopes import LintReport
from engramlog.api.schemas.tombstones import TombstoneNotice
from engramlog.api.schemas.values import Scope
from engramlog.projections.tables.declared.garden_directory import Role


class Answer(BaseModel):
    """What only the API's description reads, so nothing is built before it is asked for."""

    model_config = ConfigDict(defer_build=True)


class WireValue(Answer):
    """``v``: text, a number, true or false, or null, as ``type`` says."""

    type: Literal["string", "text", "number", "boolean", "datetime", "ref", "null"]
    v: str | float | bool | None
    interpret_as: Literal["content", "instruction"]


class WireParent(Answer):
    """``hash``: ``sha256:`` and 64 hex digits."""

    hash: str
    fact_id: str | None = None


class FactRecord(Answer):
    """A fact at the moment asked about."""

    id: str
    entity: str
    relation: str
    value: WireValue
    source: str
    timestamp: str
    hlc: str
    received_from: str | None
    valid_until: str | None
    confidence: float
    scope: Scope
    attested_key_id: str | None
    origin_node_id: str | None
    origin_allowed_scopes: list[str] | None
    garden_id: str | None
    attested: bool | None
    contradicted: bool
    warnings: list[str]
    source_trust: float | None
    quarantine_status: str | None
    quarantine_garden_id: str | None
    effective_confidence: float | None
    sanitizer_warnings: list[str]
    sanitizer_redacted: bool
    cid: str | None
    derived_from: list[WireParent]
    valid_from: str | None
    position: int
    sanitized: bool = False
    recorded_cid: str | None = None
    attributes: Attributes | None = None


class AttributesTaken(Answer):
    """The fact now; ``position`` is null where its attributes were so already."""

    id: str
    position: int | None
    fact: FactRecord


class MemoryStored(Answer):
    """abmind's answer, and what became of the memory here. Where nothing new was stated,
    ``error`` says why and ``id`` is of the one that stands; where nothing is stored, only
    the first three are there."""

    stored: bool
    memoriesCount: int  # noqa: N815  # abmind's own name
    error: str | None = None
    id: str | None = None
    position: int | None = None
    classification: int | None = None
    superseded: list[str] = []
    warnings: list[str] = []
    fact: FactRecord | None = None


class MergedMemories(Answer):
    """The memory that is kept, those that ended, and how often it counts as recalled. It is a
    new fact where it had to be ``restated``."""

    kept: str
    ended: list[str]
    restated: bool
    recall_count: int
    position: int | None
    fact: FactRecord


class GardenMember(Answer):
    """Who is in a garden, as what, and who let them in."""

    entity_uri: str
    role: Role
    added_by: str
    added_at: str


class GardenRecord(Answer):
    """``id`` is the uuid that facts carry as ``garden_id``; here that is the garden's URI."""

    id: str
    garden_id: str
    slug: str
    name: str
    scope: Scope
    description: str | None
    created_by: str
    created_at: str
    members: list[GardenMember]
    quarantine: bool


class QuarantineRecord(Answer):
    """A fact of a quarantine garden and how it was judged, if it was."""

    fact_id: str
    entity: str
    relation: str
    source: str
    quarantine_status: Literal["pending", "promoted", "rejected"]
    quarantine_garden_id: str
    quarantine_reason: str | None
    quarantine_acted_by: str | None
    quarantine_acted_at: str | None
    source_trust: float | None
    received_from: str | None
    timestamp: str


class QuarantinePage(Answer):
    """``total`` counts every match."""

    items: list[QuarantineRecord]
    total: int


class Admitted(Answer):
    """``admitted_fact_id``: the fact in the place it was admitted to."""

    fact_id: str
    action: Literal["promoted", "admitted"]
    target_garden_id: str | None
    acted_by: str
    acted_at: str
    admitted_fact_id: str
    position: int


class Rejected(Answer):
    """The fact no longer holds."""

    fact_id: str
    action: Literal["rejected"]
    acted_by: str
    acted_at: str
    position: int


class AgentKey(Answer):
    """An agent's public key."""

    id: str
    entity_uri: str
    public_key: str
    description: str | None
    registered_at: str
    status: Literal["active", "revoked"]


class FactPage(Answer):
    """``total`` counts every match; ``cursor`` is null on the last page."""

    facts: list[FactRecord]
    total: int
    cursor: str | None
    tombstone_notices: list[TombstoneNotice]
    warnings: list[str] = []


class FactLines(Answer):
    """A page as text (``fields=compact``)."""

    text: str
    total: int
    cursor: str | None
    tombstone_notices: list[TombstoneNotice]
    warnings: list[str] = []


class ShortFactPage(Answer):
    """A page of short records (``fields=facts``)."""

    facts: list[dict[str, Any]]
    total: int
    cursor: str | None
    tombstone_notices: list[TombstoneNotice]
    warnings: list[str] = []


class Retracted(Answer):
    """The fact keeps its record, with confidence 0."""

    id: str
    retracted: Literal[True]
    position: int
    fact: FactRecord


class BatchResult(Answer):
    """``fact`` or ``error``; ``status`` is what the item alone would have been answered."""

    status: int
    id: str | None
    position: int | None
    fact: FactRecord | None = None
    error: dict[str, Any] | None = None


class BatchAnswer(Answer):
    """Results in the order of the items; ``position`` is the log's end after them."""

    results: list[BatchResult]
    position: int | None


class ProvenanceParent(Answer):
    """A parent that is absent or not visible has ``exists`` false and nulls."""

    hash: str
    fact_id: str | None
    entity: str | None
    exists: bool


class ProvenanceNode(Answer):
    """The root, or an ancestor. One that is absent or not visible has nothing but its hash."""

    hash: str
    exists: bool
    depth: int = 0
    fact_id: str = ""
    entity: str = ""
    relation: str = ""
    source: str = ""
    scope: Scope = "local"


class ProvenanceEdge(Answer):
    """``from`` says that it was derived from ``to``."""

    model_config = ConfigDict(populate_by_name=True)

    child: str = Field(alias="from")
    parent: str = Field(alias="to")


class Provenance(Answer):
    """What a fact was derived from. ``truncated``: the walk has over 5,000 nodes."""

    fact_id: str
    cid: str | None
    derived_from: list[ProvenanceParent]
    depth: int
    nodes: list[ProvenanceNode]
    edges: list[ProvenanceEdge]
    truncated: bool


class CidCheck(Answer):
    """Whether the stored content hashes to the stored content id."""

    cid_valid: bool
    computed_cid: str
    stored_cid: str | None
    mismatch_reason: str | None


class ConflictRecord(Answer):
    """``fact_a`` is the newer of the two."""

    conflict_id: str
    fact_a: FactRecord
    fact_b: FactRecord
    status: Literal["unresolved", "resolved"]
    resolved_by: str | None
    detected_at: str
    winning_fact_id: str | None
    resolution_note: str | None


class ConflictPage(Answer):
    """Contradictions, newest first."""

    conflicts: list[ConflictRecord]
    cursor: str | None
    has_more: bool


class FlaggedFact(Answer):
    """A fact as recorded, what the sanitizer found in it, and the decision that stands."""

    fact: FactRecord
    codes: list[str]
    status: Literal["pending", "released", "kept"]
    review: dict[str, Any] | None


class FlaggedPage(Answer):
    """Flagged facts, newest first; ``next_before`` is null on the last page."""

    flagged: list[FlaggedFact]
    next_before: int | None
    ruleset: int
    mode: Literal["warn", "block", "quarantine", "off"]
    warnings: list[str] = []


class Reviewed(Answer):
    """``position`` is null where it was decided so already."""

    fact_id: str
    decision: Literal["release", "keep"]
    status: Literal["released", "kept"]
    position: int | None
    warnings: list[str] = []


class Resolution(Answer):
    """The fact that records the resolution."""

    resolution_fact_id: str
    conflict_status: Literal["resolved"]


class Policy(Answer):
    """A decay policy in force."""

    id: str
    relation: str
    scope: str
    mode: Literal["retract", "confidence"]
    ttl_s: float | None
    half_life_s: float | None
    min_confidence: float | None
    exempt_relations: list[str]


class Policies(Answer):
    """Every decay policy in force."""

    policies: list[Policy]


class Swept(Answer):
    """``decayed``: facts that the sweep ended or weakened. ``would_decay``, of a dry run alone:
    those that a sweep would."""

    scanned: int
    decayed: int
    dry_run: bool
    would_decay: int | None = None


class JobAccepted(Answer):
    """The request became a job: ask for it by its id. ``estimated_s``: seconds, roughly."""

    job_id: str
    status: Literal["pending", "running", "done", "error"]
    estimated_s: int


class SweepJob(Answer):
    """A sweep that became a job; ``result`` once done, ``error`` once failed."""

    job_id: str
    status: Literal["pending", "running", "done", "error"]
    result: Swept | None = None
    error: str | None = None


class LintJob(Answer):
    """A lint that became a job; ``result`` once done, ``error`` once failed."""

    job_id: str
    status: Literal["pending", "running", "done", "error"]
    result: LintReport | None = None
    error: str | None = None


class SetValued(Answer):
    """``built_in`` relations are always set-valued."""

    relations: list[str]
    built_in: list[str]


class KeyRecord(Answer):
    """An accepted key, without its secret."""

    id: str
    entity_uri: str
    permissions: list[str]
    description: str | None
    created_at: str
    expires_at: str | None
    scopes: list[Scope]
    sources: list[str]
    max_classification: int


class ExpiringKey(KeyRecord):
    """A key that expires soon. ``days_remaining``: whole days, a part of one counted whole."""

    tenant_id: str
    days_remaining: int


class Me(Answer):
    """The caller."""

    entity_uri: str
    permissions: list[str]
    oidc_sub: str | None
    tenant_id: str
    scopes: list[Scope]


class Health(Answer):
    """The process answers."""

    status: Literal["ok"]


class Ready(Answer):
    """``reason`` is there only when degraded."""

    status: Literal["ok", "degraded"]
    position: int
    projections: dict[str, Any]
    embedding: dict[str, Any]
    tasks: dict[str, str]
    replica: dict[str, Any] | None = None
    reason: str | None = None


class Check(Answer):
    """One check; ``detail`` says what was found, and what to do where that is not well."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str


class Doctor(Answer):
    """A self-check. ``degraded`` where a check failed; ``reason`` is the first that did."""

    status: Literal["ok", "degraded"]
    memory_garden_acl_filtering: str
    reason: str | None
    position: int
    checks: list[Check]


class NodeInfo(Answer):
    """Discovery."""

    version: str
    node_id: str
    node_url: str
    auth: Literal["none", "required"]
    federation: Literal["disabled", "enabled"]
    source_attestation: str
    namespaces: list[str]
    spec: str
    cors: dict[str, bool]
    embedding: dict[str, Any]


class CidBackfill(Answer):
    """Facts that the caller may read; all of them have had a content id from the first."""

    total_facts: int
    backfilled_facts: int
    pending_facts: int
    backfill_complete: bool


class Connector(Answer):
    """An editor that can start an MCP server, and the file that tells it to."""

    editor: str
    label: str
    validation_tier: Literal["validated", "caveated", "experimental"]
    docs_link: str
    config_path: str
    config_format: Literal["json", "jsonc", "toml"]


class Connectors(Answer):
    """``command`` and ``env``: what to put into such a file."""

    version: Literal["1"]
    connectors: list[Connector]
    command: list[str]
    env: dict[str, str]


class Rebuild(Answer):
    """How far the rebuild is, or how the last one went."""

    job_id: str | None
    status: Literal["idle", "running", "done", "error"]
    events: int
    events_total: int
    events_per_s: float | None
    left_s: float | None
    started_at: str | None
    finished_at: str | None
    result: dict[str, Any] | None
    error: str | None


class EmbeddingStatus(Answer):
    """What facts are embedded with, how far, and the last re-indexing."""

    enabled: bool
    provider: str
    model: str | None
    dimensions: int | None
    truncated_dimensions: int | None
    position: int
    lag: int
    waiting: int
    skipped: int
    vectors: int
    error: str | None
    reindex: dict[str, Any]


class Reindex(Answer):
    """How far re-indexing is, or how the last one went."""

    job_id: str | None
    status: Literal["idle", "running", "done", "error"]
    facts: int
    facts_total: int
    facts_per_s: float | None
    left_s: float | None
    started_at: str | None
    finished_at: str | None
    result: dict[str, Any] | None
    error: str | None


class MomentRecord(Answer):
    """The moment a question was answered at."""

    position: int
    instant: str


class State(Answer):
    """What was known at a moment."""

    facts: list[FactRecord]
    total: int
    cursor: str | None
    moment: MomentRecord


class Difference(Answer):
    """What became of facts between two moments. Lists are there as asked."""

    from_: MomentRecord = Field(alias="from")
    to: MomentRecord
    counts: dict[str, int]
    cursor: str | None
    added: list[dict[str, Any]] = []
    retracted: list[dict[str, Any]] = []
    decayed: list[dict[str, Any]] = []
    resolved: list[dict[str, Any]] = []
    erased: list[dict[str, Any]] | None = Field(
        default=None, description="facts erased in between, for admins: ids, erasure, position"
    )


class Supposed(Answer):
    """What came of one supposition."""

    index: int
    op: str
    fact_id: str | None
    created: bool
    retracted: list[str]
    events: int


class Fork(Answer):
    """An answer without what is supposed, with it, and the difference: ids ``added`` and
    ``removed`` (with their ranks, in a recall), and ``moved`` or ``changed``."""

    moment: MomentRecord
    supposed: list[Supposed]
    without: dict[str, Any]
    with_: dict[str, Any] = Field(alias="with")
    difference: dict[str, list[Any]]


class TouchRecord(Answer):
    """One event that touched facts."""

    position: int
    received_at: str
    recorded_at: str
    kind: str
    actor: str
    event_id: str
    causation_id: str | None
    origin: str
    peer: str | None
    fact_ids: list[str]
    reason: str | None
    note: str | None
    conflict_id: str | None
    winner_id: str | None


class BeliefPoint(Answer):
    """Confidence from a position on."""

    position: int
    at: str
    confidence: float
    cause: str


class FactLife(Answer):
    """A fact's events and the course of confidence in it. Only admins see an erased fact, as
    the events that name it."""

    fact: FactRecord | None
    erased: dict[str, str] | None = None
    events: list[TouchRecord]
    belief: list[BeliefPoint]
    moment: MomentRecord


class EntityLife(Answer):
    """The events of all facts about an entity."""

    entity: str
    facts: int
    events: list[TouchRecord]
    truncated: bool
    moment: MomentRecord


class SqlAnswer(Answer):
    """Rows of a statement."""

    columns: list[dict[str, str]]
    rows: list[list[Any]]
    truncated: bool
    moment: MomentRecord


class ScoreBreakdown(Answer):
    """The protocol's six numbers, and those that they come from: ``relevance`` times the three
    factors is ``weighted_total``, and that times ``scale`` is the score."""

    lexical: float
    semantic: float
    graph: float
    source_trust: float
    recency: float
    weighted_total: float
    relevance: float
    confidence_factor: float
    trust_factor: float
    other_factors: float
    scale: float


class ScoredFact(Answer):
    """A recalled fact in the protocol's nested shape."""

    fact: FactRecord
    score: float
    score_breakdown: ScoreBreakdown
    hop_distance: int
    token_estimate: int
    from_card: bool


class MemoryCard(Answer):
    """What a reader sees of one entity in one scope, as one text.

    ``summary`` is the protocol's short form, ``markdown`` the whole. ``facts`` counts what
    belongs in the card, ``omitted`` what of it did not fit. ``contradictions`` lists the ids
    of the facts on the sides of each open one.
    """

    entity_uri: str
    scope: str
    summary: str
    fact_hashes: list[str]
    avg_confidence: float
    refreshed_at: str
    is_stale: bool
    has_contradictions: bool
    card_id: str
    relation: str
    garden_id: str | None
    markdown: str
    facts: int
    omitted: int
    contradictions: list[list[str]]
    token_estimate: int
    card_stale: bool
    force_refresh_timeout: bool
    moment: dict[str, Any] | None = None


class RecallResponse(Answer):
    """The union of every published shape; see the protocol notes in the docs."""

    recall_id: str
    query_hash: str
    facts: list[ScoredFact]
    content: list[ScoredFact] = []
    instructions: list[ScoredFact] = []
    total_scored: int
    token_budget: int
    tokens_used: int
    truncated: bool
    tombstone_notices: list[TombstoneNotice]
    chain_proof: dict[str, Any] | None
    results: list[dict[str, Any]]
    query: str
    request: dict[str, Any]
    generated_at: str
    token_budget_used: int
    memory_card: MemoryCard | None
    card_stale: bool
    force_refresh_timeout: bool
    scores_debug: Any
    embedding: dict[str, Any]
    profile: str
    stages: list[dict[str, Any]]
    short_circuit_after: str | None
    evidence: str | None
    weak_evidence: bool | None
    search_skipped: bool
    search_skipped_reason: str | None
    dropped_terms: list[str]
    moment: dict[str, Any]
    receipt_id: str | None
    hint: dict[str, Any] | None
    warnings: list[str]


class ShortRecall(Answer):
    """What both short shapes of a recall say beside the facts."""

    total_scored: int
    token_budget: int
    tokens_used: int
    truncated: bool
    weak_evidence: bool | None
    moment: dict[str, Any]
    receipt_id: str | None
    hint: dict[str, Any] | None
    warnings: list[str]


class RecalledLines(ShortRecall):
    """A recall as text (``fields=compact``)."""

    text: str
    returned: int


class ShortRecords(ShortRecall):
    """A recall of short records (``fields=facts``)."""

    facts: list[dict[str, Any]]


class Receipt(Answer):
    """What a recall was asked and what it returned; ``position`` is null until it is logged."""

    receipt_id: str
    principal: str
    query: str
    request: dict[str, Any]
    profile: str
    profile_digest: str
    moment: dict[str, Any]
    answered_at: str
    position: int | None
    returned: list[dict[str, Any]]
    stages: list[dict[str, str]]
    total_scored: int | None
    tokens_used: int | None
    truncated: bool | None
    counted: bool


class ReceiptPage(Answer):
    """Receipts, newest first."""

    receipts: list[Receipt]
    cursor: str | None


class FeedbackTaken(Answer):
    """Which facts count as cited and as rejected; ``position`` is null where all were known."""

    cited: list[str]
    rejected: list[str]
    position: int | None


class ReplayedRecall(Answer):
    """A receipt's question asked again: ``then`` says whether the answer is the recorded one,
    ``facts`` compares it with the answer of now."""

    receipt_id: str
    query: str
    profile: str
    then: dict[str, Any]
    now: dict[str, Any]
    counts: dict[str, int]
    facts: list[dict[str, Any]]


class NeighborRecord(Answer):
    """A reached entity, with the edge that reached it and the way there."""

    entity: str
    relation: str
    hops: int
    confidence: float
    source_trust: float | None
    path: list[str]


class NeighborPage(Answer):
    """Neighbours in order of (hops, entity)."""

    entity: str
    depth: int
    neighbors: list[NeighborRecord]
    next_cursor: str | None
    total_hint: int


class ProfileRecord(Answer):
    """One profile, whole."""

    name: str
    description: str | None
    origin: Literal["built-in", "installed"]
    document: dict[str, Any]


class Profiles(Answer):
    """Recall profiles this node can answer with."""

    profiles: list[ProfileRecord]
    default: str


class Peers(Answer):
    """Federation peers."""

    peers: list[dict[str, Any]]


class StoredFile(Answer):
    """A file below the data directory; ``holds`` says what, as far as its name tells."""

    name: str
    holds: Literal["log", "projections", "vectors", "archive", "snapshots", "identity", "other"]
    size_bytes: int


class Storage(Answer):
    """Files, the largest first, at most 2,000; ``total_bytes`` counts all."""

    files: list[StoredFile]
    total_bytes: int
    free_bytes: int
