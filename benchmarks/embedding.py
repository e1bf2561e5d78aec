"""The speed of the bundled embedding model, compared with its float32 form and with the machine's
matrix products.

The ceiling is the float32 product of the model's own shapes. All are timed in turn, so that other
load affects them alike.
"""

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.report import Figure, percentile
from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.embedding.providers.bundled.minilm import (
    BATCH_TOKENS,
    FLOAT32,
    MiniLM,
    batches,
)
from engramlog.projections.embedding.recipe import Space

WIDTH = 384
SHAPES = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
ROUNDS = 3
CACHED = 10_000
_TEXT = """
    orbit launch crew module landing moon station engine fuel test flight science team
    agreed that the next mission would carry more instruments than before and return in
    spring after a long review of heat shield data from last year
"""
WORDS = _TEXT.split()


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = perf_counter()
    work()
    return perf_counter() - started


def some_texts(count: int, seed: int = 7) -> list[str]:
    """Texts of 4 to 60 words, like facts."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(4, 60))) for _ in range(count)]


def products_of(rows: int, seed: int = 7) -> tuple[Callable[[], object], int]:
    """One layer's dense products over ``rows`` tokens, and their operations."""
    chance = np.random.default_rng(seed)
    sets = [
        (
            chance.standard_normal((rows, inner), dtype=np.float32),
            chance.standard_normal((inner, outer), dtype=np.float32),
            np.empty((rows, outer), dtype=np.float32),
        )
        for inner, outer in SHAPES
    ]

    def run() -> None:
        for left, right, out in sets:
            np.matmul(left, right, out=out)

    return run, sum(2 * rows * inner * outer for inner, outer in SHAPES)


def flops(width: int, lengths: Sequence[int], layers: int = 6) -> int:
    """Multiplications and additions in the matrix products of one batch."""
    total = sum(lengths)
    dense = 2 * total * width * (3 * width + width + 2 * 4 * width)
    attention = sum(2 * 2 * length * length * width for length in lengths)
    return layers * (dense + attention)


def measure(facts: int) -> list[Figure]:
    """Rates over ``facts`` / 250 texts; a round times products, texts in both forms, and products
    again."""
    count = max(100, facts // 250)
    model, float32 = MiniLM(), MiniLM(FLOAT32)
    texts = some_texts(count)
    tokens = model.tokenize(texts)
    operations = sum(flops(WIDTH, [len(t) for t in batch.texts]) for batch in batches(tokens))
    products, products_operations = products_of(BATCH_TOKENS)
    times, float_times, ceilings = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        ceilings.extend(seconds_of(products) for _ in range(20))
        times.append(seconds_of(lambda: model.embed(texts)))
        float_times.append(seconds_of(lambda: float32.embed(texts)))
        ceilings.extend(seconds_of(products) for _ in range(20))
    seconds = percentile(times, 0.5)
    rate, ceiling = operations / seconds, products_operations / percentile(ceilings, 0.5)
    float_seconds = percentile(float_times, 0.5)
    query, float_query = _question_seconds(model), _question_seconds(float32)
    average = sum(map(len, tokens)) / count
    return [
        Figure(
            "forward pass",
            rate / 1e9,
            "GFLOP/s",
            f"matrix products of its shapes, {ceiling / 1e9:.0f} GFLOP/s",
            rate / ceiling,
            ">= 0.60x",
        ),
        Figure(
            f"texts of {average:.0f} tokens",
            count / seconds,
            "a second",
            f"in float32, {count / float_seconds:.0f}",
            float_seconds / seconds,
            ">= 2x",
        ),
        Figure(
            "one query",
            query * 1e3,
            "ms",
            f"in float32, {float_query * 1e3:.1f} ms",
            query / float_query,
            "<= 0.5x",
        ),
        Figure("10,000 vectors into the cache and out", 1e3 * cache_seconds(), "ms"),
    ]


def _question_seconds(model: MiniLM) -> float:
    return percentile(
        [seconds_of(lambda: model.embed(["when did the crew land?"])) for _ in range(50)], 0.5
    )


def cache_seconds() -> float:
    """One round of vectors through the cache of embeddings."""
    texts = [f"text {n}" for n in range(CACHED)]
    vectors = np.random.default_rng(7).standard_normal((CACHED, WIDTH), dtype=np.float32)
    space = Space("benchmark", "none", WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        cache = EmbeddingCache(Path(folder) / "embeddings.db")
        seconds = seconds_of(lambda: cache.put_many(space, texts, vectors))
        seconds += seconds_of(lambda: cache.get_many(space, texts))
        cache.close()
    return seconds
