from pathlib import Path

import apsw
import numpy as np
import pytest
from msgspec.structs import replace

from engramlog.eventlog.errors import StorageFailed
from engramlog.projections.embedding.cache import EmbeddingCache, text_key
from engramlog.projections.embedding.errors import UnknownModel
from engramlog.projections.embedding.providers.models import card_of
from engramlog.projections.embedding.recipe import Space, check_truncation, composed, truncate
from tests.worlds.damaged_files import DAMAGES, damage

SPACE = Space("minilm", "all-MiniLM-L6-v2", 384)


def rows(count: int, dimensions: int = 384) -> np.ndarray:
    made = np.random.default_rng(3).standard_normal((count, dimensions)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_a_vector_comes_back_bit_for_bit_and_an_unknown_text_as_none(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "embeddings.db")
    vectors = rows(2)
    cache.put_many(SPACE, ["one", "two"], vectors)
    found = cache.get_many(SPACE, ["two", "three", "one", "two"])
    assert found[1] is None
    for index, row in ((0, 1), (2, 0), (3, 1)):
        assert np.array_equal(found[index], vectors[row])  # type: ignore[arg-type]
    cache.close()


def test_cached_vectors_survive_the_process(tmp_path: Path) -> None:
    first = EmbeddingCache(tmp_path / "embeddings.db")
    first.put_many(SPACE, ["one"], rows(1))
    first.close()
    second = EmbeddingCache(tmp_path / "embeddings.db")
    assert second.get_many(SPACE, ["one"])[0] is not None
    second.close()


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_cache_is_made_again_empty(tmp_path: Path, how: str) -> None:
    texts = [f"text {number}" for number in range(300)]
    first = EmbeddingCache(tmp_path / "embeddings.db")
    first.put_many(SPACE, texts, rows(len(texts)))
    first.close()
    damage(tmp_path / "embeddings.db", how)
    second = EmbeddingCache(tmp_path / "embeddings.db")
    assert second.get_many(SPACE, texts) == [None] * len(texts)
    second.put_many(SPACE, ["one"], rows(1))
    second.keep_only([text_key("one")])
    assert second.get_many(SPACE, ["one"])[0] is not None
    second.close()


def test_a_cache_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "embeddings.db"
    path.mkdir()
    with pytest.raises(StorageFailed, match=rf"{path}: .* must be able to write it"):
        EmbeddingCache(path)


def test_a_vector_with_a_flipped_bit_is_unknown_and_stored_again(tmp_path: Path) -> None:
    path, vectors = tmp_path / "embeddings.db", rows(3)
    first = EmbeddingCache(path)
    first.put_many(SPACE, ["one", "two", "three"], vectors)
    first.close()
    db = apsw.Connection(str(path))
    change = "UPDATE vectors SET vector=? WHERE text_sha256=?"
    flipped = bytearray(db.execute("SELECT vector FROM vectors WHERE rowid=2").get)
    flipped[35] ^= 128
    db.execute(change, (bytes(flipped), text_key("two")))
    db.execute(change, (vectors[2].tobytes(), text_key("three")))  # as earlier releases stored it
    db.close()
    second = EmbeddingCache(path)
    one, two, three = second.get_many(SPACE, ["one", "two", "three"])
    assert one is not None
    assert two is None
    assert three is not None
    assert np.array_equal(three, vectors[2])
    assert second.put_many(SPACE, ["two"], vectors[1:2])
    assert second.get_many(SPACE, ["two"])[0] is not None
    second.close()


@pytest.mark.parametrize(
    "other",
    [
        replace(SPACE, model="another"),
        replace(SPACE, truncated=64),
        replace(SPACE, recipe="fact/2"),
    ],
)
def test_spaces_are_kept_apart(tmp_path: Path, other: Space) -> None:
    cache = EmbeddingCache(tmp_path / "embeddings.db")
    cache.put_many(SPACE, ["one"], rows(1))
    assert cache.get_many(other, ["one"]) == [None]
    cache.close()


def test_a_vector_once_held_is_never_replaced(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "embeddings.db")
    first, second = rows(2)
    assert cache.put_many(SPACE, ["one"], first[None])
    assert not cache.put_many(SPACE, ["one"], second[None])
    assert np.array_equal(cache.get_many(SPACE, ["one"])[0], first)  # type: ignore[arg-type]
    cache.close()


def test_erasure_leaves_no_trace_in_any_file(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "embeddings.db")
    vectors = rows(3)
    cache.put_many(SPACE, ["one", "two", "three"], vectors)
    cache.put_many(replace(SPACE, recipe="fact/2"), ["two"], vectors[1:2])
    cache.keep_only([text_key("one"), text_key("three"), text_key("unknown")])
    held = cache.get_many(SPACE, ["one", "two", "three"])
    assert [vector is not None for vector in held] == [True, False, True]
    assert cache.get_many(replace(SPACE, recipe="fact/2"), ["two"]) == [None]
    for path in tmp_path.iterdir():
        assert vectors[1].tobytes()[:64] not in path.read_bytes(), path.name
    cache.close()


def test_vectors_of_another_shape_are_refused(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "embeddings.db")
    with pytest.raises(ValueError, match="shape"):
        cache.put_many(SPACE, ["one"], rows(1, 64))
    cache.close()


def test_ten_thousand_vectors_go_in_and_out(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "embeddings.db")
    texts = [f"text {n}" for n in range(10_000)]
    vectors = rows(10_000)
    cache.put_many(SPACE, texts, vectors)
    found = cache.get_many(SPACE, texts)
    assert np.array_equal(np.stack(found), vectors)  # type: ignore[arg-type]
    cache.close()


def test_the_text_of_a_fact_is_display_name_relation_and_value() -> None:
    text = composed("stigmem://x.example/user/alice", "memory:role", "CEO")
    assert text == "alice memory:role CEO"
    assert composed("https://example.com/entity/alice/", "r", "v") == "alice r v"


def test_truncated_vectors_are_the_first_numbers_of_the_centred_vector_at_unit_length() -> None:
    card = card_of("ollama", "nomic-embed-text")
    space = Space("ollama", "nomic-embed-text", 768, truncated=64)
    whole = rows(5, 768)
    cut = truncate(whole, space, card)
    assert cut.shape == (5, 64)
    assert np.linalg.norm(cut, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    centred = (whole[0] - whole[0].mean())[:64]
    assert cut[0] == pytest.approx(centred / np.linalg.norm(centred), abs=1e-6)


@pytest.mark.parametrize(
    ("provider", "model", "dimensions", "told"),
    [
        ("ollama", "nomic-embed-text", 63, "64 to 767"),
        ("ollama", "nomic-embed-text", 768, "64 to 767"),
        ("voyage", "voyage-3-lite", 256, "cannot be truncated"),
        ("minilm", "all-MiniLM-L6-v2", 64, "cannot be truncated"),
    ],
)
def test_dimensions_a_model_cannot_be_cut_to_are_refused(
    provider: str, model: str, dimensions: int, told: str
) -> None:
    with pytest.raises(UnknownModel, match=told):
        check_truncation(card_of(provider, model), model, dimensions)
    check_truncation(card_of(provider, model), model, None)
