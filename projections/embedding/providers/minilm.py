"""all-MiniLM-L6-v2 on this machine's processor, from installed weights.

It downloads nothing. It checks the files' checksums before use, so two nodes with this model have
vectors of the same model.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, json

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.providers.provider import Purpose, unit_rows
from engramlog.projections.embedding.providers.transformer import Workspace, forward, prepare
from engramlog.projections.embedding.providers.weights import (
    float_tensors,
    model_folder,
    verified,
)
from engramlog.projections.embedding.providers.wordpiece import WordPiece

TEXT_TOKENS_MAX = 256
"""The model reads this many tokens of a text, as its authors set it; the rest is not embedded."""
BATCH_TOKENS = 512
"""Tokens computed together. A larger batch is not faster and needs more memory."""


class Batch(Struct, frozen=True):
    """Token numbers of some texts, and the index of each text in the request."""

    texts: list[list[int]]
    places: list[int]


class _Vocabulary(Struct, frozen=True):
    vocab: dict[str, int]


class _TokenizerFile(Struct, frozen=True):
    """The used parts of `tokenizer.json`; its other settings are BERT's, as in ``WordPiece``."""

    model: _Vocabulary


class MiniLM:
    """The provider. Loading takes about 0.4 s and 130 MB; ``embed`` uses the linear algebra
    library's number of threads."""

    name = "minilm"
    model = "all-MiniLM-L6-v2"
    dimensions = 384

    def __init__(self, folder: Path | None = None) -> None:
        """Raises ModelFileError. ``folder`` defaults to the installed package's."""
        folder = folder or model_folder()
        self._weights = prepare(float_tensors(verified(folder, "model.safetensors")))
        file = json.decode(verified(folder, "tokenizer.json"), type=_TokenizerFile)
        self._tokenizer = WordPiece(file.model.vocab)
        self._own = threading.local()

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:  # noqa: ARG002
        """See ``Provider``; documents and queries are embedded alike."""
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        space = self._workspace()
        for batch in batches(self.tokenize(texts)):
            vectors[batch.places] = forward(self._weights, space, batch.texts)
        return unit_rows(vectors, len(texts), self.dimensions)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of each text, cut to the model's limit."""
        return [self._tokenizer.encode(text, TEXT_TOKENS_MAX) for text in texts]

    def close(self) -> None:
        return None

    def _workspace(self) -> Workspace:
        """This thread's workspace."""
        space: Workspace | None = getattr(self._own, "space", None)
        if space is None:
            space = self._own.space = Workspace(self._weights, BATCH_TOKENS)
        return space


def batches(texts: Sequence[list[int]]) -> Iterator[Batch]:
    """All texts by length, shortest first, in batches of at most ``BATCH_TOKENS`` tokens."""
    batch, total = Batch([], []), 0
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        length = len(texts[place])
        if total + length > BATCH_TOKENS:
            yield batch
            batch, total = Batch([], []), 0
        batch.texts.append(texts[place])
        batch.places.append(place)
        total += length
    if batch.texts:
        yield batch
