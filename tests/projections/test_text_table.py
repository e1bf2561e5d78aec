"""Texts and their numbers in arrays: each finds the other, for any texts."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns.numbered_texts import FactIds, SaidValues
from engramlog.projections.sealed_sections import open_sections, write_sections
from engramlog.projections.text_table import TextTable, key_of, table_sections
from tests.worlds.replaying import QUICK

TEXTS = st.lists(st.text(st.characters(), min_size=1, max_size=6), unique=True, max_size=40)


def again(path: Path, table: TextTable, fresh: list[str], gone: set[int]) -> TextTable:
    write_sections(path, b"", table_sections("t", table, [key_of(text) for text in fresh], gone))
    return TextTable(open_sections(path), "t")


@given(TEXTS, st.sets(st.integers(0, 39)), st.integers(0, 40))
@QUICK
def test_numbers_and_texts_lead_to_each_other_and_gaps_to_nothing(
    tmp_path: Path, texts: list[str], gone: set[int], first: int
) -> None:
    table = again(tmp_path / "1", TextTable(), texts[:first], set())
    table = again(tmp_path / "2", table, texts[first:], {n for n in gone if n < len(texts)})
    assert len(table) == len(texts)
    left = ["" if number in gone else text for number, text in enumerate(texts)]
    assert list(table.texts()) == left
    assert list(table.texts(3)) == left[3:]
    assert [table.text(number) for number in range(len(table))] == left
    for number, text in enumerate(texts):
        assert table.number(key_of(text)) == (None if number in gone else number)
    assert table.texts_held == len([text for text in left if text])
    assert table.number(b"") is None
    assert table.number(key_of("longer than all of them")) is None


def test_ids_and_values_that_are_forgotten_are_absent_although_a_table_has_them(
    tmp_path: Path,
) -> None:
    ids, values = FactIds(), SaidValues()
    ids.rest(again(tmp_path / "ids", TextTable(), ["one", "two"], set()))
    ids["three"], ids["four"] = 2, 3
    del ids["two"], ids["four"]
    assert [ids.get(each) for each in ("one", "two", "three", "four")] == [0, None, 2, None]
    assert (dict(ids.items()), len(ids)) == ({"one": 0, "three": 2}, 2)
    values.rest(again(tmp_path / "values", TextTable(), ["0red", "0green"], set()))
    values.add("string", "blue")
    values.forget([1, 2])
    named = [values.number("string", each) for each in ("red", "green", "blue")]
    assert (named, values[:]) == ([0, None, None], ["red", "", ""])
    assert values.add("string", "green") == 3  # a number once forgotten is not used again


NAMES = st.lists(
    st.builds(
        str.__add__, st.sampled_from(("", "a", "https://a/", "https://a/b\0")), st.text(max_size=9)
    ),
    min_size=1,
    unique=True,
    max_size=20,
)


@given(NAMES, st.data())
@QUICK
def test_texts_between_two_are_found_without_reading_them(
    tmp_path: Path, texts: list[str], data: st.DataObject
) -> None:
    texts = [text for text in texts if text]
    table = again(tmp_path / "1", TextTable(), texts, set())
    after, last = (data.draw(st.sampled_from(["", "https://a/b", *texts])) for _ in range(2))
    numbers = np.arange(len(texts), dtype=np.int32)
    found = table.between(numbers, key_of(after), key_of(last)).tolist()
    assert [texts[n] for n in found] == [text for text in texts if after < text <= last]


def test_many_texts_of_few_places_are_all_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With equal hashes for all: the last text is after all others."""
    monkeypatch.setattr("engramlog.projections.text_table._hash", lambda *_: b"\7" + bytes(7))
    texts = [f"text {number}" for number in range(200)]
    table = again(tmp_path / "1", TextTable(), texts, set())
    assert [table.number(key_of(text)) for text in texts] == list(range(200))
    assert table.number(b"none of them") is None
