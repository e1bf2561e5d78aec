"""Embeddings in a process that only reads: another process embeds facts and questions.

Which facts a recall compares depends on what it may see, so it requests vectors while it runs.
"""

import os
from collections.abc import Callable
from pathlib import Path

from engramlog.eventlog.log import ReadableLog
from engramlog.projections.arrays import F32, I32
from engramlog.projections.embedding.choosing import choose, follow_pin
from engramlog.projections.embedding.current import CurrentEmbeddings
from engramlog.projections.embedding.embedder import UncachedEmbedder
from engramlog.projections.embedding.providers.provider import NoProvider
from engramlog.projections.embedding.recipe import Space, vectors_file
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.embedding.vectors.blocks import VectorBlocks, blocks_folder
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.loading import load_from_files, load_vectors
from engramlog.projections.embedding.vectors.vec_facts import KeptVecFacts
from engramlog.projections.embedding.vectors.vector_file import VectorFile, search_file
from engramlog.projections.image.reader import Reader

Ask = Callable[[str], F32]
"""The vector of a question's text, from the other process. Raises EmbeddingError."""


class _Asking(UncachedEmbedder):
    """Vectors of questions come from the other process."""

    ask: Ask

    def query(self, text: str) -> F32:
        return self.ask(text)


class FollowedEmbeddings(CurrentEmbeddings):
    """The interface of embeddings for recall, without a worker. Made by ``following``."""

    def __init__(
        self, space: Space | None, semantics: Semantics | None, vectors: BoundedVectors | None
    ) -> None:
        self._space = space
        self._asked = semantics
        self._vectors = vectors

    @classmethod
    def following(
        cls,
        folder: Path,
        log: ReadableLog,
        reader: Reader,
        settings: EmbeddingSettings,
        pinned: Space | None,
        ask: Ask,
    ) -> "FollowedEmbeddings":
        """The vectors in files and in the table; later ones arrive through ``put``."""
        choice = choose(follow_pin(settings, pinned), pinned, os.environ)
        space = choice.space
        if space is None:
            return cls(None, None, None)
        file = folder / vectors_file(space)
        memory = settings.memory_bytes
        searched = VectorFile(search_file(file), space.stored_dimensions, memory)
        vectors = BoundedVectors(searched, lambda: reader.pin().from_position, memory)
        table, blocks = KeptVecFacts(file, space), VectorBlocks(blocks_folder(file), space, log)
        view, least = reader.pin(), settings.min_confidence
        if not load_from_files(vectors, blocks, table, reader, view, least):
            for _ in load_vectors(vectors, table, view, reader.slot_of):
                pass  # the other process removes what is unknown here
        table.close()
        choice.provider.close()
        embedder = _Asking(NoProvider(), space, choice.card)
        embedder.ask = ask
        return cls(space, Semantics(embedder, vectors, least), vectors)

    @property
    def space(self) -> Space | None:
        return self._space

    @property
    def semantics(self) -> Semantics | None:
        return self._asked

    def put(self, slots: I32, rows: F32) -> None:
        """Add vectors that the other process made."""
        if self._vectors is not None:
            self._vectors.put(slots, rows)

    def forget(self, slots: I32) -> None:
        """Drop vectors that the other process dropped."""
        if self._vectors is not None:
            self._vectors.forget(slots)
