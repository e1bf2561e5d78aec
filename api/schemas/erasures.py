"""Requests about erasures, legal holds and tombstones (wire 5.5)."""

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import ID_LENGTH_MAX
from engramlog.api.schemas.values import Flag, Model, Position, Uri
from engramlog.eventlog.kinds import ErasureReason
from engramlog.projections.writing.decide.facts.erased_set import ERASED_FACTS_MAX

REASON_LENGTH_MAX = 2048


class ErasureRequest(Model, extra="forbid"):
    """Facts to erase for good: by id, or all about an entity.

    ``mentions``: with an entity, also facts, episodes and aliases that name its URI. ``derived``:
    also facts derived from erased ones. ``episodes``: also the episodes behind the facts. ``wait``:
    answer once every file is clean, or after ``timeout_s``.
    """

    fact_ids: list[str] = Field(default=[], max_length=ERASED_FACTS_MAX)
    entity: Uri | None = None
    mentions: Flag = True
    derived: Flag = False
    episodes: Flag = False
    reason: ErasureReason = "unspecified"
    wait: Flag = False
    timeout_s: float = Field(default=60.0, ge=0, le=600)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if bool(self.fact_ids) == (self.entity is not None):
            raise PydanticCustomError("erasure", "give fact_ids or entity, and not both")
        return self


class BeforeQuery(Model):
    """``before``: a position; earlier erasures or tombstones."""

    before: Position | None = None
    limit: int = Field(default=50, ge=1, le=500)


class HoldsQuery(Model):
    """``cursor``: of the page before."""

    cursor: Position | None = None
    limit: int = Field(default=50, ge=1, le=500)


class HoldRequest(Model, extra="forbid"):
    """A fact or an entity to hold, or (``held`` false) to release, and why."""

    fact_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    entity: Uri | None = None
    held: Flag = True
    reason: str = Field(default="", max_length=REASON_LENGTH_MAX)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.fact_id is None) == (self.entity is None):
            raise PydanticCustomError("hold", "give fact_id or entity, and not both")
        return self


class TombstoneRequest(Model, extra="allow"):
    """An entity to hide from every answer. ``scope``: one scope, or ``all`` (``*`` is the same).

    ``erase``: also erase every fact about it, for good, as ``POST /v1/erasures`` does; ``wait``:
    answer once every file is clean, or after ``timeout_s``.
    """

    entity_uri: str
    scope: str = "all"
    reason: str | None = Field(default=None, max_length=REASON_LENGTH_MAX)
    legal_hold: Flag = False
    erase: Flag = False
    wait: Flag = False
    timeout_s: float = Field(default=60.0, ge=0, le=600)


class RevokeRequest(Model, extra="allow"):
    """Why to show the entity again."""

    reason: str = Field(min_length=1, max_length=REASON_LENGTH_MAX)


class SharedQuery(Model, extra="allow"):
    """``cursor``: of the previous page."""

    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | None = None
    limit: int = Field(default=100, ge=1, le=500)


class SharedRecord(Model, extra="allow"):
    """A tombstone or (with ``tombstone_id``) a revocation, signed by a peer."""

    id: str
