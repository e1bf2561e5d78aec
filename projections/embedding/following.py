"""Embeddings as another process keeps them: questions are embedded here, facts there."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from projections.arrays import F32, I32
from projections.embedding.cache import EmbeddingCache
from projections.embedding.choosing import choose, follow_pin
from projections.embedding.current import CurrentEmbeddings, vectors_file
from projections.embedding.embedder import Embedder
from projections.embedding.recipe import Space
from projections.embedding.semantics import Semantics
from projections.embedding.service import CACHE_FILE
from projections.embedding.settings import EmbeddingSettings
from projections.embedding.vec_facts import VecFacts
from projections.embedding.vectors import Vectors
from projections.reader import Reader


class FollowedEmbeddings(CurrentEmbeddings):
    """What recall asks of embeddings, without a worker. Made by ``following``."""

    def __init__(self, space: Space | None, semantics: Semantics | None, vectors: Vectors) -> None:
        self._space = space
        self._asked = semantics
        self._vectors = vectors

    @classmethod
    def following(
        cls, folder: Path, reader: Reader, settings: EmbeddingSettings, pinned: Space | None
    ) -> FollowedEmbeddings:
        """The vectors in the table as it stands; later ones come through ``put``."""
        choice = choose(follow_pin(settings, pinned), pinned, os.environ)
        space = choice.space
        if space is None:
            return cls(None, None, Vectors(1))
        vectors = Vectors(space.stored_dimensions)
        table = VecFacts(folder / vectors_file(space), space)
        for ids, rows in table.pages():
            slots = np.array([_slot(reader, fact) for fact in ids], dtype=np.int32)
            known = slots >= 0
            vectors.put(slots[known], rows[known])
        table.close()
        embedder = Embedder(
            choice.provider, space, choice.card, EmbeddingCache(folder / CACHE_FILE)
        )
        return cls(space, Semantics(embedder, vectors, settings.min_confidence), vectors)

    @property
    def space(self) -> Space | None:
        return self._space

    @property
    def semantics(self) -> Semantics | None:
        return self._asked

    def put(self, slots: I32, rows: F32) -> None:
        """Vectors that the other process made."""
        self._vectors.put(slots, rows)

    def forget(self, slots: I32) -> None:
        """Vectors that the other process dropped."""
        self._vectors.forget(slots)


def _slot(reader: Reader, fact: str) -> int:
    slot = reader.slot_of(fact)
    return -1 if slot is None else slot
