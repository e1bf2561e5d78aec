"""Vectors within a budget: the excess is in a file, and every answer is the same."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.arrays import F32, I32, I64
from engramlog.projections.embedding.vectors import bounded_vectors, vector_file
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.in_memory import Vectors
from engramlog.projections.embedding.vectors.vector_file import KeptVectorFile, VectorFile
from tests.worlds.any_log import AnyLog, any_log

D = 64
COUNT = 600
VECTOR_BYTES = 4 * D + D // 8
BUDGET = 100 * VECTOR_BYTES
STARTS: I64 = np.cumsum(np.random.default_rng(3).integers(1, 4, COUNT)).astype(np.int64)
"""Positions of the facts: other events lie between them."""


def units(count: int, seed: int) -> F32:
    """Rows around a few directions, many of them at equal distances."""
    chance = np.random.default_rng(seed)
    rows = 2.0 * chance.standard_normal((6, D))[chance.integers(0, 6, count)]
    rows = rows + chance.standard_normal((count, D))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


ROWS = units(COUNT, 1)
ALL: I32 = np.arange(COUNT, dtype=np.int32)


def kept(path: Path, budget: int | None = BUDGET, log: Any = None) -> BoundedVectors:
    file = KeptVectorFile(path, D, budget, log or any_log())
    return BoundedVectors(file, lambda: STARTS, budget)


def followed(path: Path, budget: int | None = BUDGET) -> BoundedVectors:
    return BoundedVectors(VectorFile(path, D, budget), lambda: STARTS, budget)


def in_memory(slots: I32 = ALL) -> Vectors:
    vectors = Vectors(D)
    vectors.put(slots, ROWS[slots])
    return vectors


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bounded_vectors, "PART_POSITIONS", 256)
        patched.setattr(vector_file, "PART_POSITIONS", 256)
        patched.setattr(vector_file, "NEAREST_MAX", 16)
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoundedVectors]:
    vectors = kept(tmp_path_factory.mktemp("filled") / "search")
    for start in range(0, COUNT, 90):
        vectors.put(ALL[start : start + 90], ROWS[start : start + 90])
        assert vectors.held_bytes <= BUDGET
    assert vectors.in_file
    yield vectors
    vectors.close()


MEMORY = in_memory()


@given(
    seed=st.integers(0, 10_000),
    share=st.sampled_from((0.05, 0.5, 1.0)),
    until=st.integers(1, COUNT),
    count=st.integers(1, 200),
)
def test_the_file_answers_as_memory_does(
    filled: BoundedVectors, seed: int, share: float, until: int, count: int
) -> None:
    chance = np.random.default_rng(seed)
    slots = ALL[:until][chance.random(until) < share]
    query = units(1, seed)[0]
    assert (
        filled.likely(query, slots, count).tolist() == MEMORY.likely(query, slots, count).tolist()
    )
    assert filled.cosines(query, slots)[0].tolist() == MEMORY.cosines(query, slots)[0].tolist()
    mixed = chance.permutation(slots)
    rows, present = filled.rows(mixed)
    assert rows.tobytes() == MEMORY.rows(mixed)[0].tobytes()
    assert present.all()


def test_other_vectors_do_not_change_the_likely_ones(tmp_path: Path) -> None:
    query = units(1, 77)[0]
    asked, others = ALL[::3], np.setdiff1d(ALL, ALL[::3]).astype(np.int32)
    vectors = kept(tmp_path / "search")
    vectors.put(ALL, ROWS)
    expected = in_memory(asked).likely(query, asked, 40).tolist()
    assert vectors.likely(query, asked, 40).tolist() == expected
    vectors.put(others, np.tile(query, (len(others), 1)))
    assert vectors.likely(query, asked, 40).tolist() == expected
    vectors.close()


def test_memory_is_used_up_to_the_budget_and_the_file_beyond(tmp_path: Path) -> None:
    path = tmp_path / "search"
    vectors = kept(path)
    told: list[int] = []
    vectors.on_put = lambda slots, _rows: told.extend(slots.tolist())
    vectors.put(ALL[:100], ROWS[:100])
    assert (vectors.in_file, vectors.held_bytes, path.exists()) == (False, BUDGET, False)
    vectors.put(ALL[50:100], ROWS[50:100])
    assert not vectors.in_file, "the same vectors need no more space"
    vectors.put(ALL[100:101], ROWS[100:101])
    assert (vectors.in_file, len(vectors)) == (True, 101)
    assert told == [*range(100), *range(50, 100), 100]
    vectors.close()


def test_a_budget_of_a_megabyte_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "NEAREST_MAX", 4096)
    count, budget, query = 5000, 1 << 20, units(1, 5)[0]
    slots, rows = np.arange(count, dtype=np.int32), units(count, 2)
    starts = slots.astype(np.int64) * 2 + 1
    before = apsw.memory_used()
    apsw.memory_high_water(True)
    file = KeptVectorFile(tmp_path / "search", D, budget, any_log())
    vectors = BoundedVectors(file, lambda: starts, budget)
    for start in range(0, count, 500):
        vectors.put(slots[start : start + 500], rows[start : start + 500])
        assert vectors.held_bytes <= budget
    assert vectors.in_file
    assert len(vectors.likely(query, slots, 300)) >= 300
    vectors.cosines(query, slots)
    # The most that SQLite and sqlite-vec held: caches, searches and rows.
    assert apsw.memory_high_water(False) - before <= budget
    vectors.close()


def test_a_restart_continues_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "search"
    first = kept(path)
    first.put(ALL[:300], ROWS[:300])
    first.close()
    again = kept(path)
    assert again.restored()
    assert (again.in_file, len(again)) == (True, 300)
    again.put(ALL[200:], ROWS[200:])
    assert again.rows(ALL)[0].tobytes() == ROWS.tobytes()
    again.close()


class OtherLog(AnyLog):
    hash = b"other"


class ShortLog(AnyLog):
    def read(self, after: int, _limit: int) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("budget", "log"),
    [(BUDGET, OtherLog()), (BUDGET, ShortLog()), (COUNT * VECTOR_BYTES, None), (None, None)],
    ids=["another log", "a log cut off", "room enough", "no budget"],
)
def test_a_file_that_is_not_to_be_used_is_deleted(
    tmp_path: Path, budget: int | None, log: AnyLog | None
) -> None:
    path = tmp_path / "search"
    first = kept(path)
    first.put(ALL, ROWS)
    first.close()
    again = kept(path, budget, log)
    assert not again.restored()
    assert (again.in_file, len(again), list(tmp_path.iterdir())) == (False, 0, [])
    again.close()


def test_a_file_that_was_not_completed_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "search"
    file = KeptVectorFile(path, D, BUDGET, any_log())
    file.begin()
    file.add(STARTS[:200], ROWS[:200])
    assert not followed(path).restored(), "another process does not use it either"
    file.close()
    again = kept(path)
    assert not again.restored()
    assert list(tmp_path.iterdir()) == []
    again.close()


def test_a_damaged_file_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "search"
    path.write_bytes(b"no database" * 1000)
    again = kept(path)
    assert not again.restored()
    assert list(tmp_path.iterdir()) == []
    again.close()


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e38, 8.0])
def test_a_damaged_vector_spoils_no_other(tmp_path: Path, number: float) -> None:
    vectors = kept(tmp_path / "search")
    vectors.put(ALL, ROWS)
    row = ROWS[7].copy()
    row[3] = number
    with closing(apsw.Connection(str(tmp_path / "search"))) as db:
        db.execute("UPDATE vectors SET row=? WHERE position=?", (row.tobytes(), int(STARTS[7])))
    query = units(1, 5)[0]
    expected = in_memory().cosines(query, ALL)[0]
    expected[7] = 0.0
    cosines, present = vectors.cosines(query, ALL)
    assert cosines.tolist() == expected.tolist()
    for held in (present, vectors.rows(ALL)[1]):
        assert np.flatnonzero(~held).tolist() == [7]
    vectors.close()


def test_vectors_of_erased_facts_leave_the_file(tmp_path: Path) -> None:
    path = tmp_path / "search"
    first = kept(path)
    first.put(ALL, ROWS)
    first.close()
    fewer = np.delete(STARTS, [3, 5])
    file = KeptVectorFile(path, D, BUDGET, any_log())
    again = BoundedVectors(file, lambda: fewer, BUDGET)
    assert again.restored()
    assert again.rows(ALL[: COUNT - 2])[0].tobytes() == np.delete(ROWS, [3, 5], 0).tobytes()
    assert file.positions().tolist() == fewer.tolist()
    again.close()


def test_another_process_reads_the_writers_vectors(tmp_path: Path) -> None:
    path = tmp_path / "search"
    writing, reading = kept(path), followed(path)
    assert not reading.restored()
    writing.on_put, writing.on_forget = reading.put, reading.forget
    for start in range(0, COUNT, 40):
        writing.put(ALL[start : start + 40], ROWS[start : start + 40])
        assert reading.in_file == writing.in_file
        assert reading.rows(ALL)[0].tobytes() == writing.rows(ALL)[0].tobytes()
    writing.forget(ALL[7:9])
    assert not reading.present(ALL[7:9]).any()
    later = followed(path)
    assert later.restored()
    query = units(1, 8)[0]
    slots = np.delete(ALL, [7, 8])
    assert later.likely(query, slots, 50).tolist() == writing.likely(query, slots, 50).tolist()
    for vectors in (writing, reading, later):
        vectors.close()


def test_a_forgotten_vector_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "search"
    vectors = kept(path)
    # In random order, so that SQLite moves rows from page to page.
    for part in np.array_split(np.random.default_rng(4).permutation(ALL), 20):
        vectors.put(part, ROWS[part])
    gone = list(range(0, COUNT, 7))

    def traces() -> list[int]:
        data = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        signs = np.packbits(ROWS > 0, axis=1)
        return [n for n in gone if ROWS[n].tobytes() in data or signs[n].tobytes() in data]

    assert traces() == gone
    vectors.forget(np.array(gone, dtype=np.int32))
    assert [vectors.forgotten(0), len(vectors)] == [1, COUNT - len(gone)]
    vectors.scrub()
    assert traces() == []
    assert not vectors.likely(ROWS[0], ALL[1:2], 1).any()
    vectors.close()
