"""Manifests over HTTP (wire 3.8)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(min_length=1, max_length=2_048)]


class RotationEvent(BaseModel):
    """One change of key, signed by the key that it retires."""

    model_config = ConfigDict(extra="allow")

    previous_key_id: Text
    new_key_id: Text
    new_public_key: Text
    previous_public_key: Text | None = None
    rotated_at: Text
    signature: Text


class ManifestBody(BaseModel):
    """What an organisation states about its key and its entities."""

    model_config = ConfigDict(extra="allow")

    entity_uri: Text
    key_id: Text
    public_key: Text
    issued_at: Text
    expires_at: Text
    entities: list[Text] = Field(default=[], max_length=10_000)
    rotation_events: list[RotationEvent] = Field(default=[], max_length=1_000)
    signature: Text


class ManifestPut(BaseModel):
    """The manifest that holds now. No transparency log exists here: ``tl_warning`` says so."""

    entity_uri: str
    key_id: str
    issued_at: str
    expires_at: str
    tl_warning: str


class ManifestAnswer(BaseModel):
    """A manifest as it was signed; ``log_entry`` is null without a transparency log."""

    model_config = ConfigDict(extra="allow")

    entity_uri: str
    key_id: str
    public_key: str
    issued_at: str
    expires_at: str
    entities: list[str] = []
    rotation_events: list[dict[str, Any]] = []
    signature: str
    log_entry: dict[str, Any] | None
