"""Intents: what an agent wants of others, with its limits, as the protocol's envelope."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.values import FactValue, Instant, Name, Scope

ITEMS_MAX = 100
TEXT_LENGTH_MAX = 20_000
_Text = Annotated[str, Field(max_length=TEXT_LENGTH_MAX)]


class Constraint(BaseModel):
    """A limit that must be kept, such as a budget."""

    kind: Name
    limit: FactValue
    unit: _Text | None = None


class Preference(BaseModel):
    """What is preferred, and how strongly."""

    kind: Name
    value: Any = None
    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0


class Deference(BaseModel):
    """When to ask whom first; ``timeout_s`` seconds."""

    condition: _Text
    defer_to: Name
    timeout_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Artifact(BaseModel):
    """Something handed over."""

    name: _Text
    ref: _Text


class Handoff(BaseModel):
    """Where the work stands."""

    summary: _Text
    fact_refs: list[_Text] = Field(default_factory=list[str], max_length=ITEMS_MAX)
    artifacts: list[Artifact] = Field(default_factory=list[Artifact], max_length=ITEMS_MAX)
    continuation: Any = None


class IntentRequest(BaseModel):
    """An envelope. ``from`` must be a source that the caller may write as."""

    model_config = ConfigDict(extra="allow")

    id: Name | None = None
    from_: Name = Field(alias="from")
    to: list[Name] = Field(min_length=1, max_length=ITEMS_MAX)
    goal: Annotated[str, Field(min_length=1, max_length=2048)]
    scope: Scope = "company"
    expires_at: Instant | None = None
    constraint: list[Constraint] = Field(default_factory=list[Constraint], max_length=ITEMS_MAX)
    preference: list[Preference] = Field(default_factory=list[Preference], max_length=ITEMS_MAX)
    deference: list[Deference] = Field(default_factory=list[Deference], max_length=ITEMS_MAX)
    escalation: Any = None
    handoff: Handoff | None = None


class IntentRecord(BaseModel):
    """The envelope as it was sent, and the facts that hold it."""

    id: str
    from_: str = Field(alias="from")
    to: list[str]
    goal: str
    scope: Scope
    created_at: str
    expires_at: str | None
    constraint: list[dict[str, Any]]
    preference: list[dict[str, Any]]
    deference: list[dict[str, Any]]
    escalation: Any
    handoff: dict[str, Any] | None
    fact_ids: list[str]
    warnings: list[str] | None = None
