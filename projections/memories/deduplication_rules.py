"""abmind's rules for writing a memory (its seed, "Deduplication"): pure.

A memory is a fact like any other. These rules detect a repetition, and a memory that replaces
another.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from engramlog.projections.text.stop_words import STOP_WORDS

MEMORY_RELATION = "memory:stored"
"""The default relation of a memory, set-valued: a user's memories do not contradict each other."""
WINDOW_US = 60_000_000
"""How long a repetition counts as immediate, in microseconds."""
PARAPHRASE_MIN = 0.85
"""Texts whose vectors have at least this cosine mean the same."""
TOPIC_MEMORIES_MAX = 20
"""A new memory is compared with this many of its topic's newest, which it may end."""
SHARED_WORDS_MIN = 2
OWNERLESS = frozenset({"system", "agent", "unknown"})
"""User names that own no memories: a writer under one has not given an identity."""
RECENT_MAX = 256
CONFIDENTIAL_MAX = 64
"""How many texts are compared by vector: the owner's of the last minute, and the most similar
confidential ones that the writer may read."""
INTEGRITY_MERGED = 3
"""Compacted: merged from several memories."""

_WORD = re.compile(r"[a-z]{3,}")
_CHANGE = re.compile(
    r"\bno longer\b|\bstopped\b|\bswitched from\b|\breplaced\b"
    r"|\binstead of\b|\bwas wrong\b|\bactually\b"
)
_NOT = re.compile(r"\bnot\b")
_USE = re.compile(r"\buse")

_NEGATION = re.compile(r"\b(?:not|no|never|none|without|cannot)\b|n['\u2019]t\b")
_NUMBER = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+")


class TextLikeness(Protocol):
    """Compares texts by existing vectors: it never calls a model."""

    def cosines(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of ``text`` with each of the others; -1 without a vector."""
        ...


def is_ownerless(owner: str) -> bool:
    """Whether the last segment of an owner's name is one of ``OWNERLESS``."""
    return re.split(r"[:/]", owner.rstrip("/"))[-1].lower() in OWNERLESS


def announces_change(text: str) -> bool:
    """Whether a text has one of abmind's change markers."""
    lowered = text.lower()
    # One pattern for "not … use" would read the rest of the text again for each "not".
    negated = _NOT.search(lowered)
    not_used = negated is not None and _USE.search(lowered, negated.end()) is not None
    return not_used or _CHANGE.search(lowered) is not None


def alike_in_sense(text: str, others: Sequence[str]) -> list[bool]:
    """Which of some similar texts have the text's numbers, and the names of both in its order, and
    announce a change or negate only if it does. A correction has nearly the vector of what it
    corrects, and "Bob owes Alice" that of "Alice owes Bob"."""
    sense, names = _sense(text), _names(text)
    found: list[bool] = []
    for other in others:
        others_names = _names(other)
        both = {*names} & {*others_names}
        same_order = _in(both, names) == _in(both, others_names)
        found.append(same_order and _sense(other) == sense)
    return found


def shared_words(one: str, other: str) -> int:
    """How many distinct words of three letters or more two texts share, without stop-words."""
    return len(_words(one) & _words(other))


def _sense(text: str) -> tuple[bool, bool, list[str]]:
    negated = _NEGATION.search(text.lower()) is not None
    return announces_change(text), negated, _NUMBER.findall(text)


def _names(text: str) -> list[str]:
    """The words with a capital, each once."""
    capitalised = (word.lower() for word in _LETTERS.findall(text) if word[0].isupper())
    return [word for word in dict.fromkeys(capitalised) if word not in STOP_WORDS]


def _in(some: set[str], names: Sequence[str]) -> list[str]:
    return [name for name in names if name in some]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - STOP_WORDS
