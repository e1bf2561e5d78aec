"""Rivals of a key's facts, found without comparing all pairs, are those that comparing finds."""

from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.image.rival_values import have_rivals

_facts = st.lists(st.tuples(st.integers(-3, 6), st.integers(-3, 6), st.integers(0, 3)), max_size=12)
"""Also ones that end before they begin, which a peer may send."""


@given(_facts, _facts)
def test_the_same_as_all_pairs(
    asked: list[tuple[int, int, int]], siblings: list[tuple[int, int, int]]
) -> None:
    wanted = [
        any(
            other_value != value and other_start < end and start < other_end
            for other_start, other_end, other_value in siblings
        )
        for start, end, value in asked
    ]
    assert have_rivals(asked, siblings) == wanted
