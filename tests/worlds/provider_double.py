"""A provider without a model: a text's vector is a function of its words, and failures are
scripted. Texts with common words have similar vectors."""

import threading
import zlib
from collections.abc import Sequence

import numpy as np

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.providers.models import ModelCard
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.embedding.recipe import Space

DIMENSIONS = 64
CARD = ModelCard(DIMENSIONS, floor=16)
SPACE = Space("double", "words", DIMENSIONS)


class WordsProvider:
    """``fault`` is raised for every request while set; ``refused`` texts are refused. Requests
    wait for ``gate``; ``asked`` is set once there was one."""

    name = "double"
    model = "words"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.fault: EmbeddingError | None = None
        self.refused: dict[str, EmbeddingError] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        self.asked.set()
        self.gate.wait(10)
        if self.fault is not None:
            raise self.fault
        for text in texts:
            if text in self.refused:
                raise self.refused[text]
        if purpose == "document":
            self.embedded += texts
        return np.stack([words_vector(text) for text in texts])

    def start(self) -> None:
        return None

    def close(self) -> None:
        self.gate.set()


def words_vector(text: str) -> F32:
    total = np.zeros(DIMENSIONS)
    for word in text.lower().split():
        total += np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIMENSIONS)
    length = np.linalg.norm(total)
    return (total / length if length else np.ones(DIMENSIONS) / 8.0).astype(np.float32)
