"""Texts to vectors of one space: from the cache, else from the model."""

from collections.abc import Sequence

import numpy as np

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.embedding.providers.models import ModelCard
from engramlog.projections.embedding.providers.provider import PROBE_TEXT, Provider, Purpose
from engramlog.projections.embedding.recipe import Space, truncate
from engramlog.projections.text.scripts import mostly_latin


class UncachedEmbedder:
    """A provider without a cache, for one purpose. Safe from several threads."""

    def __init__(self, provider: Provider, space: Space, card: ModelCard) -> None:
        self.space = space
        self._provider = provider
        self._card = card

    def reads(self, text: str) -> bool:
        """Whether the model knows the script of a text; to others it gives arbitrary vectors."""
        return not self._card.latin_only or mostly_latin(text)

    def uncached(self, texts: Sequence[str]) -> F32:
        """One unit row per text; the texts are not stored. Raises as ``Provider.embed``."""
        return self._embed(texts, "document")

    def query(self, text: str) -> F32:
        """The vector of a question, never cached. Raises as ``Provider.embed``."""
        vector: F32 = self._embed([text], "query")[0]
        return vector

    def start(self) -> None:
        """See ``Provider.start``."""
        self._provider.start()

    def probe(self) -> None:
        """Embed one harmless text. Raises as ``Provider.embed``."""
        self._embed([PROBE_TEXT], "document")

    def _embed(self, texts: Sequence[str], purpose: Purpose) -> F32:
        return truncate(self._provider.embed(texts, purpose), self.space, self._card)


class Embedder(UncachedEmbedder):
    """A provider behind the cache. Safe from several threads."""

    def __init__(
        self, provider: Provider, space: Space, card: ModelCard, cache: EmbeddingCache
    ) -> None:
        super().__init__(provider, space, card)
        self._cache = cache

    def documents(self, texts: Sequence[str]) -> F32:
        """One unit row per text; stores new ones in the cache. Raises as ``Provider.embed``."""
        rows = self.cached(texts)
        missing = [n for n, row in enumerate(rows) if row is None]
        if missing:
            wanted = [texts[n] for n in missing]
            distinct = list(dict.fromkeys(wanted))
            made = self._embed(distinct, "document")
            if self._cache.put_many(self.space, distinct, made):
                by_text = dict(zip(distinct, made, strict=True))
                kept = [by_text[text] for text in wanted]
            else:  # another thread stored an answer first: the cache decides
                kept = self.cached(wanted)
            for n, row in zip(missing, kept, strict=True):
                rows[n] = row
        found = [row for row in rows if row is not None]
        if not found:
            return np.empty((0, self.space.stored_dimensions), dtype=np.float32)
        return np.stack(found)

    def cached(self, texts: Sequence[str]) -> list[F32 | None]:
        """The cached vectors; None for texts without one."""
        return self._cache.get_many(self.space, texts)
