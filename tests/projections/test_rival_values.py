"""Rivals of a key's facts, found without comparing all pairs, are those that comparing finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.image.rival_values import Validity, have_rivals, highest_beside

_facts = st.lists(st.tuples(st.integers(-3, 6), st.integers(-3, 6), st.integers(0, 3)), max_size=12)
"""Also ones that end before they begin, which a peer may send."""

_Facts = list[tuple[int, int, int]]


def validity(facts: _Facts) -> Validity:
    columns = np.array(facts, dtype=np.int64).reshape(-1, 3).T
    return Validity(columns[0], columns[1], columns[2])


@given(_facts, _facts)
def test_the_same_as_all_pairs(asked: _Facts, siblings: _Facts) -> None:
    wanted = [
        any(
            other_value != value and other_start < end and start < other_end
            for other_start, other_end, other_value in siblings
        )
        for start, end, value in asked
    ]
    assert have_rivals(validity(asked), validity(siblings)).tolist() == wanted


@given(_facts, _facts)
def test_the_highest_of_all_that_overlap(asked: _Facts, siblings: _Facts) -> None:
    wanted = [
        max(
            (
                rank
                for other_start, other_end, rank in siblings
                if other_start < end and start < other_end
            ),
            default=-1,
        )
        for start, end, _ in asked
    ]
    ranks = np.array([rank for *_, rank in siblings], dtype=np.int64)
    assert highest_beside(validity(asked), validity(siblings), ranks).tolist() == wanted
