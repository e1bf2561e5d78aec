import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import ModelFileError
from engramlog.projections.embedding.providers.bundled import bert, weights
from engramlog.projections.embedding.providers.bundled.bert import (
    HEADS,
    multiplies_signed_bytes,
)
from engramlog.projections.embedding.providers.bundled.minilm import (
    BATCH_TOKENS,
    FLOAT32,
    INT8,
    TEXT_TOKENS_MAX,
    MiniLM,
    batches,
    model_folder,
    verified,
)

HAPPY = "That is a happy person"


OFF_MAX = {FLOAT32: 1e-6, INT8: 2e-2}
"""How far a vector's cosine with the exact one may be from 1. In 8 bits, the last bit of a float
decides some roundings, and differs between processors."""


@pytest.fixture(scope="module", params=[FLOAT32, INT8])
def model(request: pytest.FixtureRequest) -> MiniLM:
    return MiniLM(request.param)


@pytest.mark.parametrize(
    ("other", "similarity"),
    [
        ("That is a happy dog", 0.6945),
        ("That is a very happy person", 0.9429),
        ("Today is a sunny day", 0.2569),
    ],
)
def test_the_similarities_published_for_the_model_come_out(
    model: MiniLM, other: str, similarity: float
) -> None:
    one, two = model.embed([HAPPY, other])
    off = 1e-4 if model.model == FLOAT32 else 3e-2
    assert float(one @ two) == pytest.approx(similarity, abs=off)


def test_vectors_agree_with_the_exact_formulas(model: MiniLM) -> None:
    texts = [
        HAPPY,
        "x",
        "The committee postponed its decision; nobody in Zürich minded — or so they said. 🚀",
        "memory:role CEO",
        "one two three " * 40,
    ]
    tensors = load(bytes(verified(model_folder(), "model.safetensors")))
    exact = np.stack([by_the_book(tensors, numbers) for numbers in model.tokenize(texts)])
    cosines = np.einsum("ij,ij->i", model.embed(texts).astype(np.float64), exact)
    assert cosines.min() > 1.0 - OFF_MAX[model.model]


def by_the_book(tensors: dict[str, F32], numbers: list[int]) -> np.ndarray:
    """BERT as in its paper, one text at a time, in double precision."""
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    erf = np.vectorize(math.erf)

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][numbers]
    x = x + w["embeddings.position_embeddings.weight"][: len(numbers)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    size = x.shape[1] // HEADS
    for n in range(6):
        at = f"encoder.layer.{n}."
        heads: list[np.ndarray] = []
        query, key, value = (dense(x, f"{at}attention.self.{p}") for p in ("query", "key", "value"))
        for h in range(HEADS):
            part = slice(h * size, (h + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(shares / shares.sum(axis=1, keepdims=True) @ value[:, part])
        mixed = dense(np.concatenate(heads, axis=1), f"{at}attention.output.dense")
        x = norm(x + mixed, f"{at}attention.output.LayerNorm")
        up = dense(x, f"{at}intermediate.dense")
        up = up * 0.5 * (1 + erf(up / math.sqrt(2)))
        x = norm(x + dense(up, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_rows_keep_the_order_of_texts_of_any_lengths(model: MiniLM) -> None:
    texts = [("word " * (n * 7 % 90 + 1)).strip() + str(n) for n in range(40)]
    together = model.embed(texts)
    for n in (0, 13, 39):
        cosine = float(together[n] @ model.embed([texts[n]])[0])
        assert cosine == pytest.approx(1.0, abs=1e-6 if model.model == FLOAT32 else 5e-3)


def test_signed_and_unsigned_weights_give_the_same_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not multiplies_signed_bytes():
        pytest.skip("this processor cuts sums of signed products off")
    texts = [HAPPY, "x", "one two three " * 40]
    signed = MiniLM().embed(texts)
    monkeypatch.setattr(bert, "multiplies_signed_bytes", lambda: False)
    np.testing.assert_array_equal(signed, MiniLM().embed(texts))


def test_all_texts_are_batched_once_within_the_bound(model: MiniLM) -> None:
    texts = [[1] * (n % TEXT_TOKENS_MAX + 1) for n in range(1000)]
    made = list(batches(texts))
    assert sorted(place for batch in made for place in batch.places) == list(range(1000))
    filled = [len(batch.texts) * max(map(len, batch.texts)) for batch in made]
    assert max(filled) <= BATCH_TOKENS


def test_an_empty_text_and_no_texts_have_answers(model: MiniLM) -> None:
    assert model.embed([""]).shape == (1, 384)
    assert model.embed([]).shape == (0, 384)


def test_a_long_text_counts_by_its_beginning(model: MiniLM) -> None:
    one, two = model.embed(["word " * 254 + "apple", "word " * 254 + "zebra " * 500])
    assert float(one @ two) == pytest.approx(1.0, abs=1e-6)


def test_weights_with_another_checksum_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ModelFileError, match="expected 53aa51172d14"):
        MiniLM(folder=tmp_path)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"model\.safetensors: No such file"):
        MiniLM(folder=tmp_path)


def test_a_missing_library_is_named_before_the_first_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "RUNTIME", ("numpy", "no_such_runtime"))
    with pytest.raises(ModelFileError, match=r"no_such_runtime is not installed \(pip install"):
        weights.check_installed()
