"""Requests about facts: stated, listed, checked, settled and decayed."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, RootModel, field_validator, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.attributes import Attributes
from engramlog.api.schemas.values import (
    NAME_LENGTH_MAX,
    FactValue,
    Fields,
    Instant,
    Model,
    Name,
    QueryShare,
    Share,
    Uri,
)
from engramlog.eventlog.kinds import Parent, Scope
from engramlog.projections.cid import parse_fact_hash
from engramlog.projections.contradictions.claims import Prefer
from engramlog.projections.graph.lint import Check
from engramlog.projections.moment import parse_instant
from engramlog.projections.writing.content_rules import PARENTS_MAX

BATCH_ITEMS_MAX = 10_000
REASON_LENGTH_MAX = 4096
ID_LENGTH_MAX = 512
RELATIONS_MAX = 1000
LOOKAHEAD_S_MAX = 3_155_760_000
"""A hundred years."""

PolicyId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}$")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AttestationBody(Model):
    """The source's signature, by a registered agent key (``docs/gardens.md``)."""

    key_id: str
    signature: str


class AssertRequest(Model, extra="allow"):
    """A fact to state. ``confidence`` 0 retracts. Unknown fields cause a warning."""

    entity: Uri
    relation: Name
    value: FactValue
    source: Uri
    confidence: Share = 1.0
    scope: Scope = "local"
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    garden_id: str | None = None
    attestation: AttestationBody | None = None
    attributes: Attributes | None = None
    write_mode: Literal["assert", "summarize_with_provenance"] = "assert"
    derived_from: list[Any] = Field(default_factory=list, max_length=PARENTS_MAX)

    @field_validator("derived_from", mode="before")
    @classmethod
    def _absent_parents(cls, given: Any) -> Any:
        return [] if given is None else given

    @field_validator("derived_from")
    @classmethod
    def _parents(cls, given: list[Any]) -> list[Parent]:
        return [_parent(index, item) for index, item in enumerate(given)]

    @model_validator(mode="after")
    def _interval(self) -> Self:
        if (
            self.valid_from is not None
            and self.valid_until is not None
            and parse_instant(self.valid_from) >= parse_instant(self.valid_until)
        ):
            raise PydanticCustomError(
                "empty_interval",
                "valid_from must be before valid_until",
                {"field": "valid_from"},
            )
        return self


def _parent(index: int, item: Any) -> Parent:
    """One parent: a hash, or an object with ``hash`` and optionally ``fact_id``."""
    given, fact_id = item, None
    if isinstance(item, dict):
        given, fact_id = item.get("hash"), item.get("fact_id")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if fact_id is not None and (not isinstance(fact_id, str) or len(fact_id) > ID_LENGTH_MAX):
            raise _bad_parent(index, "fact_id must be a string")
    if not isinstance(given, str):
        raise _bad_parent(index, "needs 'hash': 64 hex digits, with or without 'sha256:'")
    try:
        return Parent(parse_fact_hash(given), fact_id)
    except ValueError as fault:
        raise _bad_parent(index, str(fault)) from fault


def _bad_parent(index: int, reason: str) -> PydanticCustomError:
    return PydanticCustomError(
        "fact_hash", "entry {index}: {reason}", {"index": index, "reason": reason}
    )


class RetractRequest(Model, extra="forbid"):
    """Why to end a fact."""

    reason: str = Field(default="", max_length=REASON_LENGTH_MAX)


class BatchAssert(AssertRequest, extra="forbid"):
    """An assert item of a batch; rejects unknown fields."""

    op: Literal["assert"] = "assert"
    again: bool = False


class BatchRetract(Model, extra="forbid"):
    """A retract item of a batch."""

    op: Literal["retract"]
    id: str = Field(min_length=1, max_length=ID_LENGTH_MAX)
    reason: str = Field(default="", max_length=REASON_LENGTH_MAX)


class BatchItem(RootModel[Any], defer_build=True):
    """One item of a batch."""

    root: BatchAssert | BatchRetract  # as a parameter, it would be built on import


class WriteQuery(Model, extra="allow"):
    """``wait=embedded``: answer once recall finds the fact by its meaning too."""

    wait: Literal["embedded"] | None = None


class BatchQuery(Model, extra="forbid"):
    """``atomic``: all items or none. ``wait`` as in ``WriteQuery``."""

    atomic: bool = False
    wait: Literal["embedded"] | None = None


class MomentQuery(Model, extra="allow"):
    """The moment to read. ``as_of``: an RFC 3339 instant, an HLC, or ``position:N``. ``valid_at``:
    the instant at which facts have to be valid."""

    as_of: str | None = None
    valid_at: Instant | None = None


class ProvenanceQuery(MomentQuery):
    """How far to walk (at most 5 hops), and whether within one scope only."""

    depth: int = Field(default=3, ge=1)
    scope: str | None = None


class FactsQuery(MomentQuery):
    """Filters of GET /v1/facts."""

    entity: str | None = None
    relation: str | None = None
    source: str | None = None
    scope: str | None = None
    min_confidence: QueryShare = 0.0
    include_contradicted: bool = False
    include_expired: bool = False
    include_retracted: bool = False
    include_low_trust: bool = False
    after: Instant | None = None
    garden_id: str | None = None
    attested: bool | None = None
    prefer: Prefer | None = None
    tail: bool = False
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class FactListQuery(FactsQuery):
    """Filters of GET /v1/facts, and how much of each fact to send."""

    fields: Fields = "full"


class ConflictsQuery(MomentQuery):
    """Which contradictions to list."""

    status: Literal["unresolved", "resolved"] | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class ResolveRequest(Model, extra="allow"):
    """The winner: one of the two facts, or a new value."""

    winning_fact_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    resolution_note: str = Field(default="", max_length=REASON_LENGTH_MAX)
    new_value: FactValue | None = None


class LintBody(MomentQuery):
    """The checks to run in a scope; by default all. ``stale_lookahead_s``: also report facts that
    will have ended by then, seconds."""

    scope: str
    checks: list[Check] | None = Field(default=None, max_length=5)
    entity: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    relation: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    stale_lookahead_s: Annotated[float, Field(ge=0, le=LOOKAHEAD_S_MAX, allow_inf_nan=False)] = 0


class SynthesisQuery(MomentQuery):
    """Whether expired facts count, and how many facts to list."""

    include_expired: bool = False
    limit: int = Field(default=200, ge=1, le=1000)


class PolicyRequest(Model, extra="forbid"):
    """A decay policy. ``*`` covers every relation or scope; a label may end in ``*``."""

    relation: Name = "*"
    scope: Scope | Literal["*"] = "*"
    mode: Literal["retract", "confidence"] = "retract"
    ttl_s: Seconds | None = None
    half_life_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    exempt_relations: list[Name] = Field(default_factory=list, max_length=RELATIONS_MAX)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode == "confidence" and self.half_life_s is None:
            raise PydanticCustomError("missing", "mode 'confidence' needs half_life_s")
        if self.mode == "retract" and self.ttl_s is None and self.min_confidence is None:
            raise PydanticCustomError("missing", "mode 'retract' needs ttl_s or min_confidence")
        return self


class SweepRequest(Model, extra="allow"):
    """A sweep. Without ``ttl_seconds`` and ``min_confidence`` the stored policies apply."""

    dry_run: bool = False
    scope: str | None = None
    ttl_seconds: Seconds | None = None
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class SetValuedRequest(Model, extra="forbid"):
    """The relations that may have several values: labels, or globs ending in ``*``."""

    relations: list[Name] = Field(max_length=RELATIONS_MAX)
