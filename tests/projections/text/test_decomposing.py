"""Decompositions of long texts."""

import unicodedata
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engramlog.projections.text import decomposing
from engramlog.projections.text.decomposing import PIECE, decomposed

LETTERS = st.text(st.sampled_from("aé\u1ec7\u0323\u0302\u0f73ｶﾞ한ﬁกำ"), min_size=1, max_size=9)


@example("\u0302ﾞa", "NFKD")
@example("\u0302\u0f73a", "NFD")
@given(LETTERS, st.sampled_from(("NFD", "NFKD")))
def test_a_long_text_is_decomposed_as_by_the_library(
    letters: str, form: Literal["NFD", "NFKD"]
) -> None:
    text = letters * PIECE
    whole = unicodedata.normalize(form, letters)
    if not all(map(unicodedata.combining, whole)):
        assert decomposed(form, text) == unicodedata.normalize(form, text)


def test_no_letter_has_more_marks_sorted_than_a_piece_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []

    class Counting:
        combining = staticmethod(unicodedata.combining)

        @staticmethod
        def normalize(form: Literal["NFD"], text: str) -> str:
            if len(text) > 1:
                lengths.append(len(text))
            return unicodedata.normalize(form, text)

    monkeypatch.setattr(decomposing, "unicodedata", Counting)
    marks = "\u0316\u0301" * 10_000
    assert sorted(decomposed("NFD", marks)) == sorted(marks)
    assert max(lengths) == 2 * PIECE
    assert sum(lengths) == len(marks)
