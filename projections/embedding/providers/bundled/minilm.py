"""all-MiniLM-L6-v2 on this machine's processor, from installed weights.

It downloads nothing. It checks the files' checksums before use, so two nodes with this model have
vectors of the same model.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct, json

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.providers.bundled.bert import Bert
from engramlog.projections.embedding.providers.bundled.weights import (
    float_tensors,
    model_folder,
    verified,
)
from engramlog.projections.embedding.providers.bundled.wordpiece import WordPiece
from engramlog.projections.embedding.providers.provider import Purpose, unit_rows

TEXT_TOKENS_MAX = 256
"""The model reads this many tokens of a text, as its authors set it; the rest is not embedded."""
BATCH_TOKENS = 512
"""Tokens computed together, with those that fill shorter texts up. A larger batch is not faster and
needs more memory."""

THREADS = 1
INT8 = "all-MiniLM-L6-v2-int8"
"""The model of new nodes."""
FLOAT32 = "all-MiniLM-L6-v2"
"""That of nodes whose log pins it. Its vectors are never mixed with the others."""


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
    """The provider. Loading takes about a second. ``model``: ``INT8`` or ``FLOAT32``: the same
    weights, computed in other numbers. ``folder``: defaults to the installed package's."""

    name = "minilm"
    dimensions = 384

    def __init__(self, model: str = INT8, folder: Path | None = None) -> None:
        """Raises ModelFileError."""
        self.model = model
        folder = folder or model_folder()
        tensors = float_tensors(verified(folder, "model.safetensors"))
        self._bert = Bert(tensors, THREADS, int8=model == INT8)
        file = json.decode(verified(folder, "tokenizer.json"), type=_TokenizerFile)
        self._tokenizer = WordPiece(file.model.vocab)

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:  # noqa: ARG002
        """See ``Provider``; documents and queries are embedded alike."""
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for batch in batches(self.tokenize(texts)):
            vectors[batch.places] = self._bert.vectors(batch.texts)
        return unit_rows(vectors, len(texts), self.dimensions)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of each text, cut to the model's limit."""
        return [self._tokenizer.encode(text, TEXT_TOKENS_MAX) for text in texts]

    def close(self) -> None:
        return None


def batches(texts: Sequence[list[int]]) -> Iterator[Batch]:
    """All texts by length, shortest first, in batches of at most ``BATCH_TOKENS`` tokens, all as
    long as the longest."""
    batch = Batch([], [])
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        if (len(batch.texts) + 1) * len(texts[place]) > BATCH_TOKENS:
            yield batch
            batch = Batch([], [])
        batch.texts.append(texts[place])
        batch.places.append(place)
    if batch.texts:
        yield batch
