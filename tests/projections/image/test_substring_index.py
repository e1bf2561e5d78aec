import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns import substring_index as folded
from engramlog.projections.columns.substring_index import (
    Folded,
    beginning,
    occurrences,
    strip_diacritics,
)

TEXTS = st.lists(st.text("ab żĄ-ß9\n", max_size=12), max_size=12)


def test_folding_takes_marks_and_case_away_and_leaves_other_letters() -> None:
    assert strip_diacritics("Váltókezelő ŁÓDŹ Straße") == "valtokezelo łodz straße"


@pytest.mark.parametrize(
    ("piece", "text", "begins"),
    [
        ("dog", "A dog barks", True),
        ("dog", "dogs and doghouses", True),
        ("dog", "The watchdog guards", False),
        ("roka", "rókára emlékszem", True),
        ("dog", "łdog", False),
        ("dog", "", False),
    ],
)
def test_a_piece_begins_a_word_or_not(piece: str, text: str, begins: bool) -> None:
    assert beginning(piece)(strip_diacritics(text)) is begins


def test_overlapping_places_all_count() -> None:
    assert occurrences("aa", "aaaa") == 3


def test_nothing_is_found_across_two_texts() -> None:
    texts = ["ends with puppy", "dog begins"]
    assert Folded(lambda start: texts[start:]).counts("puppydog").tolist() == [0, 0]


@given(TEXTS, TEXTS, st.text("ab żĄ-ß9", min_size=1, max_size=3), st.integers(1, 5))
def test_counts_are_those_of_each_text_however_it_grows(
    first: list[str], then: list[str], piece: str, block: int
) -> None:
    piece = strip_diacritics(piece)
    texts = list(first)
    kept, folded.BLOCK = folded.BLOCK, block
    try:
        index = Folded(lambda start: texts[start:])
        for _ in range(2):
            plain = [strip_diacritics(text) for text in texts]
            assert index.counts(piece).tolist() == [occurrences(piece, text) for text in plain]
            assert index.lengths().tolist() == [len(text.encode()) for text in plain]
            texts += then
    finally:
        folded.BLOCK = kept
