"""Which candidates' rows are read, and what their values cost without them."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.ranking.breakdown import rounded
from engramlog.projections.recall.ranking.packing import by_value_bytes, costs_by_value_bytes
from engramlog.projections.recall.ranking.scoring import SCORE_DECIMALS
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.tables.facts.fact_rows import FactRow
from tests.worlds.recall_world import World, reader, user

BY_SCORE, DIVERSE = 1.0, 0.5


class Shelf:
    """A world whose reads of rows are counted and whose facts can be erased."""

    def __init__(self) -> None:
        self.world = World()
        for number in range(30):
            self.world.fact(user(f"u{number}"), "memory:note", f"tea {'é' * number}")
        self.read: list[int] = []
        self.erased: set[int] = set()

    def rows(self, positions: Sequence[int]) -> list[FactRow]:
        self.read += positions
        return [row for row in self.world.rows(positions) if row.from_position not in self.erased]

    def ask(self, lambda_mmr: float, limit: int) -> RecallAnswer:
        return recall(
            self.world.view(),
            self.rows,
            RecallRequest(query="tea", lambda_mmr=lambda_mmr, limit=limit),
            load_profile("default"),
            reader(),
            self.world.moment(),
            stopwatch=lambda: 0.0,
        )


def test_only_the_rows_of_the_answer_are_read() -> None:
    shelf = Shelf()
    answer = shelf.ask(BY_SCORE, 3)
    assert [each.row.from_position for each in answer.results] == shelf.read
    assert len(shelf.read) == 3


@pytest.mark.parametrize("lambda_mmr", [BY_SCORE, DIVERSE])
def test_a_fact_erased_since_the_view_was_pinned_leaves_its_place(lambda_mmr: float) -> None:
    shelf = Shelf()
    first, second, third = (each.row.id for each in shelf.ask(BY_SCORE, 3).results)
    best = shelf.ask(lambda_mmr, 1).results[0]
    assert best.row.id == first
    shelf.erased = {best.row.from_position}
    left = [each.row.id for each in shelf.ask(lambda_mmr, 29).results]
    assert first not in left
    assert len(left) == 29
    assert {second, third} < set(left)
    shelf.erased = set(range(1, 31))
    assert not shelf.ask(lambda_mmr, 3).results


@given(st.lists(st.text()))
def test_values_cost_the_same_without_their_texts(texts: list[str]) -> None:
    sizes = np.array([len(text.encode()) for text in texts], dtype=np.int32)
    assert costs_by_value_bytes(sizes) == list(map(by_value_bytes, texts))


NUMBERS = st.floats() | st.floats(-2, 2) | st.integers(-4_000_001, 4_000_001).map(lambda n: n / 2e6)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1))
def test_many_numbers_are_rounded_like_one(rows: list[tuple[float, float]]) -> None:
    found = rounded(np.array(rows)).tolist()
    expected = [[round(number, SCORE_DECIMALS) for number in row] for row in rows]
    assert repr(found) == repr(expected)
