from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.embedding.errors import DimensionMismatch, ModelMismatch
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.embedding.vectors.in_memory import BLOCK_SLOTS, Vectors
from engramlog.projections.embedding.vectors.sketch import differing, signs
from engramlog.projections.embedding.vectors.vec_facts import VecFacts, open_vectors
from tests.worlds.provider_double import SPACE

D = SPACE.dimensions


def units(count: int, seed: int = 1) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, D)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


COUNT = BLOCK_SLOTS + 3000
ROWS = units(COUNT)
FILLED = Vectors(D)
FILLED.put(np.arange(0, COUNT, dtype=np.int32), ROWS)


def slots_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


def test_cosines_are_dot_products_rounded_to_a_millionth() -> None:
    query = units(1, seed=9)[0]
    slots = slots_of(0, 5, BLOCK_SLOTS - 1, BLOCK_SLOTS, COUNT - 1)
    cosines, present = FILLED.cosines(query, slots)
    assert present.all()
    assert cosines == pytest.approx(ROWS[slots].astype(np.float64) @ query, abs=1e-6)
    assert np.array_equal(np.round(cosines, 6), cosines)


@given(st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=50), st.integers(0, 10_000))
def test_a_cosine_does_not_depend_on_other_scanned_facts(chosen: set[int], seed: int) -> None:
    query = units(1, seed)[0]
    everything, _ = FILLED.cosines(query, np.arange(COUNT, dtype=np.int32))
    slots = slots_of(*sorted(chosen))
    assert np.array_equal(FILLED.cosines(query, slots)[0], everything[slots])


def test_a_cosine_does_not_depend_on_facts_that_come_later() -> None:
    vectors = Vectors(D)
    vectors.put(slots_of(0, 1, 2), ROWS[:3])
    query = units(1, seed=9)[0]
    before, _ = vectors.cosines(query, slots_of(0, 1, 2))
    vectors.put(np.arange(3, COUNT, dtype=np.int32), ROWS[3:])
    after, _ = vectors.cosines(query, slots_of(0, 1, 2))
    assert np.array_equal(before, after)


def test_slots_without_a_vector_are_marked() -> None:
    vectors = Vectors(D)
    vectors.put(slots_of(1, 5000), ROWS[:2])
    assert len(vectors) == 2
    cosines, present = vectors.cosines(ROWS[0], slots_of(0, 1, 4999, 5000, 1_000_000))
    assert present.tolist() == [False, True, False, True, False]
    assert cosines[[0, 2, 4]].tolist() == [0.0, 0.0, 0.0]
    assert cosines[1] == pytest.approx(1.0, abs=1e-6)
    rows, has = vectors.rows(slots_of(1, 2))
    assert np.array_equal(rows[0], ROWS[0])
    assert has.tolist() == [True, False]


def test_a_forgotten_vector_is_overwritten() -> None:
    vectors = Vectors(D)
    vectors.put(slots_of(1, 2), ROWS[:2])
    vectors.forget(slots_of(1, 99))
    assert vectors.rows(slots_of(1, 2))[1].tolist() == [False, True]
    assert not vectors._blocks[0][1].any()


def test_no_slots_have_no_cosines() -> None:
    cosines, present = FILLED.cosines(ROWS[0], slots_of())
    assert len(cosines) == len(present) == 0


def test_the_table_has_the_columns_of_the_protocol(tmp_path: Path) -> None:
    table = VecFacts(tmp_path / "vectors.db", SPACE)
    table.write(added=[("fact-1", ROWS[0]), ("fact-2", ROWS[1])])
    table.close()
    db = open_vectors(tmp_path / "vectors.db")
    ((schema,),) = db.execute("SELECT sql FROM sqlite_master WHERE name='vec_facts'").fetchall()
    assert "id TEXT PRIMARY KEY" in str(schema)
    assert f"embedding FLOAT[{D}]" in str(schema)
    nearest = db.execute(
        "SELECT id FROM vec_facts WHERE embedding MATCH ? AND k=1", (ROWS[1].tobytes(),)
    ).fetchall()
    assert nearest == [("fact-2",)]
    db.close()


def test_a_row_is_replaced_removed_and_survives(tmp_path: Path) -> None:
    table = VecFacts(tmp_path / "vectors.db", SPACE)
    table.write(added=[("a", ROWS[0]), ("b", ROWS[1])])
    table.write(added=[("b", ROWS[2])], ended=["a", "unknown"])
    table.close()
    again = VecFacts(tmp_path / "vectors.db", SPACE)
    assert len(again) == 1
    ((ids, rows),) = list(again.pages())
    assert ids == ["b"]
    assert np.array_equal(rows[0], ROWS[2])
    again.close()


@pytest.mark.parametrize(
    ("configured", "error", "told"),
    [
        (
            Space("ollama", "nomic-embed-text", 768),
            DimensionMismatch,
            "vec_facts dimensionality mismatch",
        ),
        (Space("double", "words", D, truncated=16), DimensionMismatch, "dimensionality mismatch"),
        (Space("double", "other", D), ModelMismatch, "vec_facts model mismatch"),
        (Space("double", "words", D, recipe="fact/2"), ModelMismatch, "model mismatch"),
    ],
)
def test_a_table_of_another_space_is_refused(
    tmp_path: Path, configured: Space, error: type[Exception], told: str
) -> None:
    table = VecFacts(tmp_path / "vectors.db", SPACE)
    table.write(added=[("a", ROWS[0])])
    table.close()
    with pytest.raises(error, match=told):
        VecFacts(tmp_path / "vectors.db", configured)


def test_the_server_of_a_model_makes_no_difference(tmp_path: Path) -> None:
    VecFacts(tmp_path / "vectors.db", SPACE).close()
    elsewhere = Space("another server", SPACE.model, SPACE.dimensions)
    VecFacts(tmp_path / "vectors.db", elsewhere).close()


def test_the_sketch_counts_signs_that_differ() -> None:
    query = units(1, seed=9)
    differences = differing(signs(ROWS[:500]), signs(query))
    assert differences.tolist() == ((ROWS[:500] > 0) != (query > 0)).sum(axis=1).tolist()


@given(st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=300), st.integers(1, 300))
def test_the_likely_are_those_with_the_fewest_differing_signs(chosen: set[int], count: int) -> None:
    query = units(1, seed=9)[0]
    slots = slots_of(*sorted(chosen))
    likely = FILLED.likely(query, slots, count)
    differences = ((ROWS[slots] > 0) != (query > 0)).sum(axis=1)
    limit = sorted(differences)[min(count, len(slots)) - 1]
    assert likely.tolist() == np.flatnonzero(differences <= limit).tolist()
    assert len(likely) >= min(count, len(slots))


def test_whole_blocks_and_parts_of_them_are_sketched_alike() -> None:
    query = units(1, seed=9)[0]
    slots = np.arange(COUNT, dtype=np.int32)
    likely = FILLED.likely(query, slots, 100)
    most = np.delete(slots, np.setdiff1d(slots[::3], likely))
    assert most[FILLED.likely(query, most, 100)].tolist() == slots[likely].tolist()
    few = np.union1d(slots[::50], slots[likely])
    assert few[FILLED.likely(query, few, 100)].tolist() == slots[likely].tolist()


def test_a_forgotten_vector_leaves_no_sketch() -> None:
    vectors = Vectors(D)
    vectors.put(slots_of(1, 2), ROWS[:2])
    vectors.forget(slots_of(1))
    assert not vectors._sketches[0][:, 1].any()
    assert vectors._sketches[0][:, 2].any()
