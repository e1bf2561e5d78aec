"""A provider that is opened when it is first needed: loading a model takes longer than a start
of the node should, and a node that only writes never needs one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from projections.arrays import F32
from projections.embedding.provider import Provider, Purpose


class Deferred:
    """Stands for the provider that ``opened`` gives, once."""

    def __init__(
        self, name: str, model: str, dimensions: int, opened: Callable[[], Provider]
    ) -> None:
        self.name = name
        self.model = model
        self.dimensions = dimensions
        self._opened = opened
        self._lock = threading.Lock()
        self._provider: Provider | None = None

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        """See ``Provider``; the first call also raises what opening raises."""
        return self._open().embed(texts, purpose)

    def close(self) -> None:
        with self._lock:
            if self._provider is not None:
                self._provider.close()

    def _open(self) -> Provider:
        with self._lock:
            if self._provider is None:
                self._provider = self._opened()
            return self._provider
