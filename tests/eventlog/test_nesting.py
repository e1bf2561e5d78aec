"""Levels of JSON are counted outside its strings, in linear time."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.nesting import nests_deeper

TEXTS = st.text('[]{}"\\a', max_size=6)
VALUES = st.recursive(
    st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)


def levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)  # pyright: ignore[reportUnknownArgumentType]
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0  # pyright: ignore[reportUnknownArgumentType]


@given(VALUES)
def test_the_levels_are_those_of_the_value(value: Any) -> None:
    data = json.dumps(value).encode()
    deepest = levels(value)
    assert not nests_deeper(data, deepest)
    assert deepest == 0 or nests_deeper(data, deepest - 1)


@pytest.mark.parametrize(
    ("data", "deeper"),
    [
        (b'["[[[[", "\\"[[[["]', False),
        (b'{"a": [[', True),
        (b'[[]], [[]], "[[', False),
        (b"]]]]]]]]]][[[", False),
        (b'"' + b'\\"[' * 1_000_000, False),  # quadratic time would be hours
    ],
)
def test_what_is_no_json_counts_as_what_it_begins_as(data: bytes, deeper: bool) -> None:
    assert nests_deeper(data, 2) is deeper
