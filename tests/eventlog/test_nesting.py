"""Levels of JSON are counted outside its strings, in linear time."""

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog import nesting
from engramlog.eventlog.nesting import nests_deeper, values_in
from tests.worlds.counted_work import line_work

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


def values(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())  # pyright: ignore[reportUnknownArgumentType]
    return max(len(value), 1) + sum(map(values, value)) if isinstance(value, list) else 0  # pyright: ignore[reportUnknownArgumentType]


@given(VALUES, st.sampled_from((5, 65_536)))
def test_the_levels_are_those_of_the_value(value: Any, piece_bytes: int) -> None:
    data = json.dumps(value).encode()
    deepest = levels(value)
    with mock.patch.object(nesting, "PIECE_BYTES", piece_bytes):
        assert not nests_deeper(data, deepest)
        assert deepest == 0 or nests_deeper(data, deepest - 1)
        assert values_in(data) == values(value)


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


def test_no_step_of_python_is_taken_for_each_bracket() -> None:
    def lines(brackets: int) -> int:
        return line_work(lambda: nests_deeper(b"[]" * brackets, 1))

    assert lines(10) == lines(10_000)
