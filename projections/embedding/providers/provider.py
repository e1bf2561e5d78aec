"""The interface to embedding models: one method, and the check of its answer."""

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import BadAnswer, EmbeddingsOff

Purpose = Literal["document", "query"]
"""The vectors' purpose: some models need it, and a query cannot wait long."""
PROBE_TEXT = "engramlog"
"""A harmless text, embedded to see whether a provider answers."""


class Provider(Protocol):
    """Turns texts into unit vectors. Safe from several threads.

    Attributes:
        name: of the provider, as configured (``ollama``).
        model: the provider's name of the model.
        dimensions: of every vector.
    """

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        """One unit row per text, in order.

        Raises: ProviderUnavailable, ProviderRefused, BadAnswer, EmbeddingsOff.
        """
        ...

    def start(self) -> None:
        """Return once the model is loaded, if this process has to start it. Raises as ``embed``."""
        ...

    def close(self) -> None:
        """Release connections and memory. Idempotent."""
        ...


class NoProvider:
    """Answers every request with EmbeddingsOff: recall uses words and graph alone."""

    name = "none"
    model = "none"
    dimensions = 0

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        raise EmbeddingsOff(f"no embedding provider is configured ({len(texts)} {purpose} texts)")

    def start(self) -> None:
        return None

    def close(self) -> None:
        return None


def unit_rows(rows: F32, count: int, dimensions: int) -> F32:
    """``rows`` scaled to unit length. Raises BadAnswer unless it is ``count`` rows of finite
    numbers in that many dimensions, none of them all zero."""
    if rows.shape != (count, dimensions):
        raise BadAnswer(f"expected {count} vectors of {dimensions} dimensions, got {rows.shape}")
    # In double precision, so that no finite row overflows.
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise BadAnswer("a vector is zero or holds a number that is not finite")
    return (rows / lengths[:, None]).astype(np.float32)
