import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.text.question_share import asking_percent


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("", 0),
        ("Tea.", 0),
        ("Why?", 100),
        ("Tea. Why?", 56),  # " Why?" is 5 of 9 characters
        ("Why? Tea", 50),  # "Why?" is 4 of 8
        ("ab\ncd?", 50),  # a line end ends a sentence: "cd?" is 3 of 6
        ("Really?!", 0),  # an exclamation
        ("茶？", 100),
        ("لماذا؟", 100),
    ],
)
def test_the_share_of_characters_in_questions(text: str, percent: int) -> None:
    assert asking_percent(text) == percent


@given(st.text())
def test_it_is_a_percentage(text: str) -> None:
    assert 0 <= asking_percent(text) <= 100
