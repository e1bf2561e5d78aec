"""An operator's settings for embeddings."""

from msgspec import Struct


class EmbeddingSettings(Struct, frozen=True, kw_only=True):
    """The operator's settings. None means the model's default or the pinned value.

    Attributes:
        provider: ``auto``, ``ollama``, ``openai``, ``voyage``, ``minilm`` or ``none``.
        model: the provider's name of it.
        url: of the provider, if not its public address.
        dimensions: of the model's vectors; needed for models without a card.
        truncated_dimensions: how many of them to keep.
        min_confidence: facts above this confidence are embedded.
        memory_bytes: the memory for vectors of one process.
    """

    provider: str = "auto"
    model: str | None = None
    url: str | None = None
    dimensions: int | None = None
    truncated_dimensions: int | None = None
    min_confidence: float = 0.1
    memory_bytes: int | None = None
