"""What abmind does when a memory is written (its seed, "Deduplication"): pure rules.

A memory is a fact like any other. These rules say when one has just been said, and when one
says that another is no longer so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from engramlog.projections.text.stop_words import STOP_WORDS

MEMORY_RELATION = "memory:stored"
"""Of a memory that names no relation. It is set-valued: memories do not contradict each other
for being of one user."""
WINDOW_US = 60_000_000
"""How long the same thing counts as said just now, in microseconds."""
PARAPHRASE_MIN = 0.85
"""Texts whose vectors have at least this cosine say the same."""
TOPIC_MEMORIES_MAX = 20
"""A new memory is compared with so many of its topic's newest, which it may end."""
SHARED_WORDS_MIN = 2
OWNERLESS = frozenset({"system", "agent", "unknown"})
"""Users that own no memories: a writer under one has forgotten to say who it is."""
RECENT_MAX = 256
CONFIDENTIAL_MAX = 64
"""So many texts are compared with a new one by their vectors: of the owner's last minute, and
of the confidential memories that its writer may read, the likest."""
INTEGRITY_MERGED = 3
"""Compacted: what was made of several memories."""

_WORD = re.compile(r"[a-z]{3,}")
_CHANGE = re.compile(
    r"\bnot\b.*\buse|\bno longer\b|\bstopped\b|\bswitched from\b|\breplaced\b"
    r"|\binstead of\b|\bwas wrong\b|\bactually\b",
    re.DOTALL,
)


class TextLikeness(Protocol):
    """Compares texts by vectors that were made before: it never asks a model."""

    def cosines(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of ``text`` with each of the others; -1 where a vector is not known."""
        ...


def is_ownerless(owner: str) -> bool:
    """Whether the last segment of an owner's name is one of ``OWNERLESS``."""
    return re.split(r"[:/]", owner.rstrip("/"))[-1].lower() in OWNERLESS


def tells_of_change(text: str) -> bool:
    """Whether a text has one of abmind's change markers."""
    return _CHANGE.search(text.lower()) is not None


def shared_words(one: str, other: str) -> int:
    """How many distinct words of three letters or more two texts share, stop-words apart."""
    return len(_words(one) & _words(other))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - STOP_WORDS
