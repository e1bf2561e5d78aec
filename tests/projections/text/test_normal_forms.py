"""Normal forms of long texts."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engramlog.projections.text import normal_forms
from engramlog.projections.text.normal_forms import PIECE, Form, normal_form

LETTERS = "aé\u1ec7ｶ한ﬁก\u1112"
JOINED = "\u0323\u0302\u0f73ﾞำ\u1161\u11ab\u09c7\u09be"
FORMS: list[Form] = ["NFC", "NFD", "NFKC", "NFKD"]


@example("\u0302ﾞa", "NFKD")
@example("\u0302\u0f73a", "NFD")
@example("\u1112\u1161\u11ab", "NFC")
@example("a\u09c7\u09be", "NFKC")
@given(st.text(st.sampled_from(LETTERS + JOINED), max_size=9), st.sampled_from(FORMS))
def test_a_long_text_is_normalized_as_by_the_library(letters: str, form: Form) -> None:
    text = letters * PIECE
    if not set(letters).isdisjoint(LETTERS):
        assert normal_form(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
def test_no_letter_has_more_marks_sorted_than_a_piece_holds(
    monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    lengths: list[int] = []

    class Counting:
        category = staticmethod(unicodedata.category)

        @staticmethod
        def normalize(form: Form, text: str) -> str:
            if len(text) > 1:
                lengths.append(len(text))
            return unicodedata.normalize(form, text)

    monkeypatch.setattr(normal_forms, "unicodedata", Counting)
    marks = "\u0316\u0301" * 10_000
    assert sorted(normal_form(form, marks)) == sorted(marks)
    assert max(lengths) == 2 * PIECE
    assert sum(lengths) == len(marks)
