"""A store for recalls: Zipfian text in topics, and made-up unit vectors that follow them.

No model runs: a fact's vector is the sum of its topic's direction, an individual part, and a part
common to all texts, spread unevenly over the dimensions. Cosines are then distributed like those of
real sentences under MiniLM: 0.18 ± 0.1 between any two, about 0.6 between a question and its
answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from benchmarks.workload import command_of
from engramlog.projections.arrays import F32, I32
from engramlog.projections.text.stop_words import STOP_WORDS
from engramlog.projections.writing.commands import AssertFact

DIMENSIONS = 384
VOCABULARY = 30_000
TOPIC_WORDS = 60
FACTS_PER_TOPIC = 500
FACTS_PER_ENTITY = 8
WORDS_MIN, WORDS_MAX = 8, 40
SPREAD_FROM = 2.5
COMMON_SHARE = 0.18
SCOPE_SHARES = {"local": 0.1, "team": 0.1, "company": 0.5, "public": 0.3}
"""A node has four scopes; ``team`` holds a tenth of the facts, like one of ten equal ones."""
TENTH_SCOPE = "team"
RELATIONS = [
    f"{group}:{name}"
    for group in ("memory", "project", "person", "incident")
    for name in ("note", "status", "decision", "owner", "next")
]
SOURCES = [f"stigmem://bench.example/agent/{number}" for number in range(20)]
REF_EVERY = 10
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_PAGE = 10_000


class Question(Struct, frozen=True):
    """Words to ask with, and their topic."""

    text: str
    topic: int


def vocabulary() -> list[str]:
    """The commonest words first, equal in every run: English stop-words, which make up half of the
    text, then made-up words of two to four syllables."""
    chance = random.Random(3)
    words: dict[str, None] = dict.fromkeys(sorted(STOP_WORDS, key=lambda word: (len(word), word)))
    while len(words) < VOCABULARY:
        words["".join(chance.choices(_SYLLABLES, k=chance.choice((2, 2, 3, 3, 4))))] = None
    return list(words)


class RecallWorld:
    """``facts`` facts, their vectors, and questions; all functions of the seed alone."""

    def __init__(self, facts: int, seed: int = 11) -> None:
        self.facts = facts
        self.topics = max(8, facts // FACTS_PER_TOPIC)
        self._seed = seed
        self._words = vocabulary()
        ranks = np.arange(1, VOCABULARY + 1, dtype=np.float64)
        self._shares = np.cumsum(1.0 / ranks) / (1.0 / ranks).sum()
        chance = np.random.default_rng(seed)
        shape = (self.topics, TOPIC_WORDS)
        self._topic_words = chance.integers(len(STOP_WORDS), VOCABULARY, shape)
        rotation = np.linalg.qr(chance.standard_normal((DIMENSIONS, DIMENSIONS)))[0]
        spread = (np.arange(DIMENSIONS) + SPREAD_FROM) ** -0.5
        self._spread = (spread[:, np.newaxis] * rotation).astype(np.float32)
        self._common = COMMON_SHARE**0.5 * _unit(chance.standard_normal((1, DIMENSIONS)))
        self._centres = self._directions(chance, self.topics)

    def pages(self) -> Iterator[list[AssertFact]]:
        """All facts, ``_PAGE`` at a time."""
        for first in range(0, self.facts, _PAGE):
            yield [command_of(body) for body in self._bodies(first, min(_PAGE, self.facts - first))]

    def vectors(self) -> Iterator[tuple[I32, F32]]:
        """Slots and unit rows, in the order of the facts."""
        for first in range(0, self.facts, _PAGE):
            count = min(_PAGE, self.facts - first)
            chance = np.random.default_rng((self._seed, 2, first))
            topics = self.topics_of(first, count)
            strength = chance.uniform(0.5, 1.2, (count, 1)).astype(np.float32)
            rows = self._near(chance, strength * self._centres[topics])
            yield np.arange(first, first + count, dtype=np.int32), rows

    def questions(self, count: int) -> list[Question]:
        """Three to eight words: a topic's own, and others as frequent as in texts."""
        chance = np.random.default_rng((self._seed, 3))
        asked: list[Question] = []
        for _ in range(count):
            topic = int(chance.integers(self.topics))
            own = chance.choice(self._topic_words[topic], int(chance.integers(2, 6)))
            other = self._zipf(chance, int(chance.integers(1, 4)))
            numbers: list[int] = [*own.tolist(), *other.tolist()]
            words = [self._words[number] for number in numbers]
            asked.append(Question(" ".join(words), topic))
        return asked

    def question_vector(self, question: Question) -> F32:
        """A unit vector near the question's topic."""
        chance = np.random.default_rng((self._seed, 4, *question.text.encode()))
        vector: F32 = self._near(chance, self._centres[question.topic : question.topic + 1])[0]
        return vector

    def _directions(self, chance: np.random.Generator, count: int) -> F32:
        rows = chance.standard_normal((count, DIMENSIONS), dtype=np.float32)
        return _unit(rows @ self._spread)

    def _near(self, chance: np.random.Generator, topics: F32) -> F32:
        own = topics + self._directions(chance, len(topics))
        return _unit((1.0 - COMMON_SHARE) ** 0.5 * _unit(own) + self._common)

    def _zipf(self, chance: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        return np.searchsorted(self._shares, chance.random(count))

    def topic_words(self, topic: int) -> list[str]:
        """The words that only this topic has."""
        return [self._words[number] for number in self._topic_words[topic].tolist()]

    def topics_of(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """The topics of facts, by the first one's number."""
        numbers = np.arange(first, first + count, dtype=np.int64)
        return (numbers * 2_654_435_761 >> 7) % self.topics

    def _bodies(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        chance = np.random.default_rng((self._seed, 1, first))
        entities = max(1, self.facts // FACTS_PER_ENTITY)
        lengths = chance.integers(WORDS_MIN, WORDS_MAX + 1, count)
        topics = self.topics_of(first, count)
        words = self._zipf(chance, int(lengths.sum()))
        which = chance.integers(0, TOPIC_WORDS, len(words))
        own = self._topic_words[np.repeat(topics, lengths), which]
        words = np.where(chance.random(len(words)) < 0.3, own, words)
        texts = np.array(self._words, dtype=object)[words].tolist()
        about = chance.integers(0, entities, count).tolist()
        targets = chance.integers(0, entities, count).tolist()
        relations = chance.integers(0, len(RELATIONS), count).tolist()
        sources = chance.integers(0, len(SOURCES), count).tolist()
        scopes = chance.choice(list(SCOPE_SHARES), count, p=list(SCOPE_SHARES.values())).tolist()
        at = 0
        for index, length in enumerate(lengths.tolist()):
            value = {"type": "text", "v": " ".join(texts[at : at + length])}
            if (first + index) % REF_EVERY == REF_EVERY - 1:
                value = {"type": "ref", "v": self._entity(targets[index])}
            at += length
            yield {
                "entity": self._entity(about[index]),
                "relation": RELATIONS[relations[index]],
                "value": value,
                "source": SOURCES[sources[index]],
                "scope": scopes[index],
            }

    def _entity(self, number: int) -> str:
        word = self._words[number * 7919 % VOCABULARY]
        return f"stigmem://bench.example/item/{word}-{number}"


def _unit(rows: np.ndarray[Any, Any]) -> F32:
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
