"""Requests about embeddings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Dimensions = Annotated[int, Field(strict=True, ge=1, le=65_536)]


class ReindexBody(BaseModel):
    """The model to index with; all null means: the one that is configured."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    provider: Literal["auto", "ollama", "openai", "voyage", "minilm"] | None = None
    model: str | None = Field(default=None, min_length=1, max_length=200)
    dimensions: Dimensions | None = None
    truncated_dimensions: Dimensions | None = None

    @model_validator(mode="after")
    def _check_provider(self) -> ReindexBody:
        rest = (self.model, self.dimensions, self.truncated_dimensions)
        if self.provider is None and any(each is not None for each in rest):
            raise ValueError("model, dimensions and truncated_dimensions need a provider")
        return self
