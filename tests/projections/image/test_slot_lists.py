"""The lists of several numbers at once, against the lists one by one."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns.slot_lists import NumberedLists, Postings

NUMBERS = st.integers(0, 5)


@given(
    st.lists(NUMBERS, max_size=20),
    st.lists(NUMBERS, max_size=10),
    st.sets(st.integers(0, 19), max_size=3),
    st.lists(NUMBERS, max_size=6),
    st.integers(0, 30),
)
def test_several_lists_at_once_are_the_lists_one_after_the_other(
    sealed: list[int], fresh: list[int], dropped: set[int], asked: list[int], pinned: int
) -> None:
    lists = Postings()
    known = sorted(set(sealed))[-1] + 1 if sealed else 0
    of = [[slot for slot, number in enumerate(sealed) if number == each] for each in range(known)]
    starts = np.cumsum([0, *map(len, of)])
    if sealed:
        lists.rest(NumberedLists(starts, np.array([*chain(*of)], dtype=np.int32)))
    for slot, number in enumerate(fresh, len(sealed)):
        lists.add(number, slot)
    if dropped:
        lists.drop(dropped)
    count = len(sealed) + min(pinned, len(fresh))
    slots, lengths = lists.joined(np.array(asked, dtype=np.int32), count)
    expected = [lists.slots(number, count).tolist() for number in asked]
    assert slots.tolist() == [*chain(*expected)]
    assert lengths.tolist() == [len(each) for each in expected]
