"""What tells a memory from a repetition, in texts of any length."""

from itertools import islice, product
from string import ascii_lowercase

import pytest

from engramlog.projections.memories.deduplication_rules import alike_in_sense, announces_change

LONGEST = 262_144
NAMES = map("".join, product(ascii_lowercase, repeat=4))
LONG = {
    "not": "not " * (LONGEST // 4),
    "names": " ".join(name.title() for name in islice(NAMES, LONGEST // 5)),
    "numbers": "12 " * (LONGEST // 3),
    "spaces": "Ann" + " " * (LONGEST - 5) + "Bo",
}


@pytest.mark.parametrize("announced", ["we do not, not ever, use it", "not user", "not\nto use x"])
def test_a_change_is_announced_by_what_is_not_used(announced: str) -> None:
    assert announces_change(announced)


@pytest.mark.parametrize("text", ["use it, or not", "not abuse", "knots used", "note the use"])
def test_a_change_is_not_announced_by_other_words(text: str) -> None:
    assert not announces_change(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_time_is_linear_in_the_text(text: str) -> None:
    """In quadratic time this takes minutes and reaches the limit."""
    assert alike_in_sense(text, [text, f"{text} 7"]) == [True, False]
