"""No model: recall uses words and graph alone."""

from collections.abc import Sequence

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import EmbeddingsOff
from engramlog.projections.embedding.providers.provider import Purpose


class NoProvider:
    """Answers every request with EmbeddingsOff."""

    name = "none"
    model = "none"
    dimensions = 0

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        raise EmbeddingsOff(f"no embedding provider is configured ({len(texts)} {purpose} texts)")

    def close(self) -> None:
        return None
