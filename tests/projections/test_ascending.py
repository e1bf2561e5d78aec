"""Grouping numbers: the same as by looking for each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.ascending import grouped


@given(st.lists(st.integers(-3, 5)))
def test_each_number_has_its_places(numbers: list[int]) -> None:
    found = [(number, places.tolist()) for number, places in grouped(np.array(numbers, np.int64))]
    assert found == [
        (number, [at for at, each in enumerate(numbers) if each == number])
        for number in sorted(set(numbers))
    ]
