"""The citation detector, by its two rules."""

import pytest

from engramlog.projections.recall import citation
from engramlog.projections.recall.citation import GivenAnswer

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
    assert GivenAnswer(answer).cites(memory) is cited


def test_the_answer_is_cut_up_once_for_all_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of a long answer for each tenth character of long memories would take minutes."""
    cut: list[str] = []
    plain = citation._plain
    monkeypatch.setattr(citation, "_plain", lambda text: cut.append(text) or plain(text))
    answer = GivenAnswer("the answer")
    for n in range(3):
        answer.cites(f"memory {n}")
    assert cut == ["the answer", "memory 0", "memory 1", "memory 2"]
