"""The citation detector, by its two rules."""

import pytest

from engramlog.projections.recall.citation import is_cited

MEMORY = "The billing service moved to Frankfurt in March, says Dana"


@pytest.mark.parametrize(
    ("memory", "answer", "cited"),
    [
        # "The billing service " are its first 20 characters; " service moved to Fr" begins at 11.
        (MEMORY, "As noted: the BILLING   service went away.", True),
        (MEMORY, "The billing servicing", False),
        # Characters 10 to 29: "g service moved to F".
        (MEMORY, "...ng service moved to F...", True),
        # 20 characters that begin at no tenth: " billing service mov" from 3 on.
        (MEMORY, "x billing service mov", False),
        # Five shared words: billing, service, moved, frankfurt, march.
        (MEMORY, "In March we moved; Frankfurt has the service of billing.", True),
        (MEMORY, "In March we moved; Frankfurt has the service.", False),
        # Shorter than a window, and fewer than five words.
        ("Alice leads", "Alice leads", False),
        ("", "anything", False),
        # Stop-words and words of three letters do not count.
        (
            "they have been with some that will this very much",
            "some of them have been there",
            False,
        ),
    ],
)
def test_an_answer_cites_by_a_window_or_by_five_words(
    memory: str, answer: str, cited: bool
) -> None:
    assert is_cited(memory, answer) is cited
