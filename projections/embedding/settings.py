"""What an operator says of embeddings."""

from __future__ import annotations

from msgspec import Struct


class EmbeddingSettings(Struct, frozen=True, kw_only=True):
    """What the operator says. None leaves it to the model or to what is pinned.

    Attributes:
        provider: ``auto``, ``ollama``, ``openai``, ``voyage``, ``minilm`` or ``none``.
        model: as the provider calls it.
        url: where the provider is, for others than its own public address.
        dimensions: of the model's vectors; needed for models without a card.
        truncated_dimensions: how many of them to keep.
        min_confidence: confidence above which a fact is embedded.
        memory_bytes: of memory that a process holds vectors in.
    """

    provider: str = "auto"
    model: str | None = None
    url: str | None = None
    dimensions: int | None = None
    truncated_dimensions: int | None = None
    min_confidence: float = 0.1
    memory_bytes: int | None = None
