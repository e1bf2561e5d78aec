"""The forward pass of a BERT encoder in numpy, arranged so that matrix products dominate.

Texts of one batch follow each other without padding, so every product is one large one. Only
attention handles texts singly, in groups of equal length. Loading precomputes what it can: the
three attention products are one, and the queries include the score's scale. Keys need no bias
(softmax ignores it), and the output's bias includes the values'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F32, I32

HEADS = 12
LAYER_NORM_EPSILON = np.float32(1e-12)
ROWS_AT_ONCE = 64
"""Rows per elementwise step: with its scratch they stay in a core's cache."""

# gelu(x) = x/2 * (1 + tanh(x * (c0 + c1 x² + c2 x⁴))), fitted to the exact gelu with erf: off by at
# most 2.6e-5. From |x| = 6 on the result is x or 0 in float32; the polynomial, which would turn at
# 11, is clamped there.
GELU_C0, GELU_C1, GELU_C2 = (
    np.float32(c) for c in (0.7975078841334116, 0.03700564614918328, -0.0003515168075741079)
)
GELU_SQUARE_MAX = np.float32(36.0)
SCORE_MAX = 60.0
"""Attention scores within ± this need no shift before exponentiation."""


class Layer(Struct, frozen=True):
    """One encoder layer; matrices are (in, out), and the halving of gelu is in ``down``."""

    qkv: F32
    query_bias: F32
    output: F32
    output_bias: F32
    attention_norm: tuple[F32, F32]
    up: F32
    up_bias: F32
    down: F32
    down_bias: F32
    norm: tuple[F32, F32]


class ModelWeights(Struct, frozen=True):
    """``words`` and ``places`` are added and normalised into the first layer's input."""

    words: F32
    places: F32
    norm: tuple[F32, F32]
    layers: tuple[Layer, ...]

    @property
    def width(self) -> int:
        """Dimensions of a token, and of the answer."""
        return int(self.words.shape[1])


def prepare(tensors: Mapping[str, F32]) -> ModelWeights:
    """Weights from the tensors of a BERT checkpoint, by their usual names."""
    # A copy: the tensors are views of the file, which is then released.
    words = tensors["embeddings.word_embeddings.weight"].copy()
    places = tensors["embeddings.position_embeddings.weight"]
    places = places + tensors["embeddings.token_type_embeddings.weight"][0]
    count = len({name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")})
    layers = tuple(_layer(tensors, f"encoder.layer.{n}.") for n in range(count))
    return ModelWeights(words, places, _norm(tensors, "embeddings.LayerNorm"), layers)


def _layer(tensors: Mapping[str, F32], at: str) -> Layer:
    def part(name: str) -> tuple[F32, F32]:
        return tensors[f"{at}{name}.weight"], tensors[f"{at}{name}.bias"]

    query, query_bias = part("attention.self.query")
    key, _ = part("attention.self.key")
    value, value_bias = part("attention.self.value")
    output, output_bias = part("attention.output.dense")
    up, up_bias = part("intermediate.dense")
    down, down_bias = part("output.dense")
    scale = np.float32(1.0 / np.sqrt(len(query) // HEADS))
    return Layer(
        qkv=np.ascontiguousarray(np.concatenate([query * scale, key, value]).T),
        query_bias=query_bias * scale,
        output=np.ascontiguousarray(output.T),
        output_bias=output_bias + output @ value_bias,
        attention_norm=_norm(tensors, f"{at}attention.output.LayerNorm"),
        up=np.ascontiguousarray(up.T),
        up_bias=up_bias,
        down=np.ascontiguousarray((down * np.float32(0.5)).T),
        down_bias=down_bias,
        norm=_norm(tensors, f"{at}output.LayerNorm"),
    )


def _norm(tensors: Mapping[str, F32], name: str) -> tuple[F32, F32]:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


class Workspace:
    """Work arrays for a batch of up to ``tokens`` tokens; used by one thread at a time."""

    def __init__(self, weights: ModelWeights, tokens: int) -> None:
        width = weights.width
        self.tokens = tokens
        self._hidden = np.empty((tokens, width), dtype=np.float32)
        self._mixed = np.empty((tokens, width), dtype=np.float32)
        self._wide = np.empty((tokens, 4 * width), dtype=np.float32)
        self.scratch: F32 = np.empty((ROWS_AT_ONCE, 4 * width), dtype=np.float32)

    def rows(self, count: int) -> tuple[F32, F32, F32, F32]:
        """For ``count`` tokens: the hidden state, the attention's output, and one array with two
        views, (3 x width) and (4 x width), which are never needed together."""
        width = self._hidden.shape[1]
        flat = self._wide.reshape(-1)
        return (
            self._hidden[:count],
            self._mixed[:count],
            flat[: count * 3 * width].reshape(count, 3 * width),
            flat[: count * 4 * width].reshape(count, 4 * width),
        )


def forward(weights: ModelWeights, space: Workspace, texts: Sequence[Sequence[int]]) -> F32:
    """Unit vectors of texts given as token numbers, one row each, in order.

    Texts of equal length must be adjacent; none may be empty or longer than the model's limit, and
    together they must fit the workspace.
    """
    lengths = [len(text) for text in texts]
    total = sum(lengths)
    hidden, mixed, qkv, wide = space.rows(total)
    groups = list(_groups(lengths))
    numbers: I32 = np.concatenate([np.asarray(text, dtype=np.int32) for text in texts])
    np.take(weights.words, numbers, axis=0, out=hidden, mode="clip")
    for start, count, length in groups:
        rows = hidden[start : start + count * length].reshape(count, length, -1)
        rows += weights.places[:length]
    _normalise(hidden, weights.norm)
    for layer in weights.layers:
        np.matmul(hidden, layer.qkv, out=qkv)
        qkv[:, : weights.width] += layer.query_bias
        for start, count, length in groups:
            _attend(qkv, mixed, start, count, length)
        product = qkv.reshape(-1)[: total * weights.width].reshape(total, weights.width)
        np.matmul(mixed, layer.output, out=product)
        _normalise(hidden, layer.attention_norm, product, layer.output_bias)
        np.matmul(hidden, layer.up, out=wide)
        _double_gelu(wide, layer.up_bias, space.scratch)
        np.matmul(wide, layer.down, out=mixed)
        _normalise(hidden, layer.norm, mixed, layer.down_bias)
    return _mean_of_tokens(hidden, groups, len(texts))


def flops(width: int, lengths: Sequence[int], layers: int = 6) -> int:
    """Multiplications and additions in the matrix products of ``forward``."""
    total = sum(lengths)
    dense = 2 * total * width * (3 * width + width + 2 * 4 * width)
    attention = sum(2 * 2 * length * length * width for length in lengths)
    return layers * (dense + attention)


def _groups(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first row, texts, tokens per text) of each run of equal lengths."""
    start = 0
    for length, run in groupby(lengths):
        count = sum(1 for _ in run)
        yield start, count, length
        start += count * length


def _attend(qkv: F32, mixed: F32, start: int, count: int, length: int) -> None:
    """Attention within each text of a group, written to its rows of ``mixed``."""
    width = mixed.shape[1]
    size = width // HEADS
    rows = slice(start, start + count * length)
    split = qkv[rows].reshape(count, length, 3, HEADS, size).transpose(2, 0, 3, 1, 4)
    query, key, value = split
    scores: F32 = np.matmul(query, key.swapaxes(-1, -2))
    if max(float(scores.max()), -float(scores.min())) > SCORE_MAX:
        scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    sums: F32 = np.matmul(scores, np.ones((length, 1), dtype=np.float32))
    answer = mixed[rows].reshape(count, length, HEADS, size).transpose(0, 2, 1, 3)
    np.matmul(scores, value, out=answer)
    answer /= sums


def _double_gelu(wide: F32, bias: F32, scratch: F32) -> None:
    """Twice the gelu of ``wide + bias``, in place."""
    for start in range(0, len(wide), ROWS_AT_ONCE):
        x = wide[start : start + ROWS_AT_ONCE]
        t = scratch[: len(x)]
        x += bias
        np.multiply(x, x, out=t)
        np.minimum(t, GELU_SQUARE_MAX, out=t)
        p = t * GELU_C2
        p += GELU_C1
        p *= t
        p += GELU_C0
        p *= x
        np.tanh(p, out=p)
        p += np.float32(1.0)
        x *= p


def _normalise(
    hidden: F32, norm: tuple[F32, F32], added: F32 | None = None, bias: F32 | None = None
) -> None:
    """``hidden = layer norm of (hidden + added + bias)``, in place."""
    width = hidden.shape[1]
    gain, shift = norm
    share = np.full(width, 1.0 / width, dtype=np.float32)
    for start in range(0, len(hidden), ROWS_AT_ONCE):
        x = hidden[start : start + ROWS_AT_ONCE]
        if added is not None:
            x += added[start : start + ROWS_AT_ONCE]
        if bias is not None:
            x += bias
        x -= (x @ share)[:, None]
        deviation: F32 = np.einsum("ij,ij->i", x, x)
        deviation /= np.float32(width)
        deviation += LAYER_NORM_EPSILON
        np.sqrt(deviation, out=deviation)
        x /= deviation[:, None]
        x *= gain
        x += shift


def _mean_of_tokens(hidden: F32, groups: Sequence[tuple[int, int, int]], texts: int) -> F32:
    """The mean of each text's tokens, as a unit vector."""
    width = hidden.shape[1]
    vectors = np.empty((texts, width), dtype=np.float32)
    row = 0
    for start, count, length in groups:
        tokens = hidden[start : start + count * length].reshape(count, length, width)
        np.sum(tokens, axis=1, out=vectors[row : row + count])
        row += count
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors
