"""Questions that compare two passages, each named by its title: "Which is older, X or Y?".

The evidence are both passages. Titles are of one passage each, drawn at random, so that a question
rarely makes sense; whether both are found does not depend on that.
"""

import random
import re
from collections import Counter

import msgspec

from benchmarks.question_sets import FOLDER, Conversation, Question, QuestionSet, conversations

PASSAGES = FOLDER / "passages"
ASKED = 150
WORDINGS = (
    "Which is older, {} or {}?",
    "Are {} and {} both located in the same country?",
    "Who was born first, {} or {}?",
    "What do {} and {} have in common?",
    "Between {} and {}, which one is larger?",
    "Were both {} and {} founded in the 20th century?",
    "Did {} and {} share the same nationality?",
    "Which came out earlier, {} or {}?",
    "Are {} and {} the same type of thing?",
    "{} and {} are both what?",
)
_EXPLAINED = re.compile(r" \([^)]*\)$")


def two_passages() -> Conversation:
    """The passages, and questions about two of them each."""
    (whole,) = conversations(PASSAGES)
    titles = [_EXPLAINED.sub("", turn.text.split("\n")[0]) for turn in whole.turns]
    often = Counter(titles)
    once = [
        (title, turn.id)
        for title, turn in zip(titles, whole.turns, strict=True)
        if often[title] == 1
    ]
    chance = random.Random("two passages")
    asked: list[Question] = []
    for n in range(ASKED):
        (one, first), (other, second) = chance.sample(once, 2)
        text = WORDINGS[n % len(WORDINGS)].format(one, other)
        asked.append(Question(f"two {n}", text, "two", frozenset({first, second})))
    return msgspec.structs.replace(whole, questions=tuple(asked))


TWO_PASSAGES = QuestionSet("MuSiQue, two titles", "passages", PASSAGES, cut=5, made=two_passages)
