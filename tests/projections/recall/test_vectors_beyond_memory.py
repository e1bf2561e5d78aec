"""Recall over vectors beyond memory gives the answers of a node with them in memory."""

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.projections.arrays import F32, I32
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.in_memory import Vectors
from engramlog.projections.embedding.vectors.vector_file import KeptVectorFile
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.stages import semantic
from tests.worlds.any_log import any_log
from tests.worlds.recall_world import NOW_US, World, reader, user

D = 384
MEGABYTE = 1 << 20
FACTS = 700
WORDS = ("tea", "boat", "ledger", "violin", "garden", "storm")
SCOPES = ("company", "team")


def direction(text: str) -> F32:
    return np.random.default_rng(zlib.crc32(text.encode())).standard_normal(D).astype(np.float32)


class Directions:
    """A model with one direction per word."""

    def reads(self, _text: str) -> bool:
        return True

    def query(self, text: str) -> F32:
        total = np.sum([direction(word) for word in text.split()], axis=0)
        return (total / np.linalg.norm(total)).astype(np.float32)


class Stored:
    """Facts of two scopes, their vectors in memory, and the same in a file."""

    def __init__(self, folder: pytest.TempPathFactory) -> None:
        self.world = World()
        chance = np.random.default_rng(6)
        words = chance.choice(WORDS, (FACTS, 2)).tolist()
        scopes = chance.choice(SCOPES, FACTS).tolist()
        for number, (said, scope) in enumerate(zip(words, scopes, strict=True)):
            self.world.fact(user(f"u{number % 40}"), "memory:note", " ".join(said), scope=scope)
            if number % 10 == 9:
                self.world.retract(int(chance.integers(number)))
        self.slots: I32 = np.arange(FACTS, dtype=np.int32)
        mean = np.stack([direction(first) + direction(second) for first, second in words])
        rows = mean + chance.standard_normal((FACTS, D)) * 2
        self.rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        self.memory = Vectors(D)
        self.memory.put(self.slots, self.rows)
        path = folder.mktemp("beyond") / "search"
        file = KeptVectorFile(path, D, MEGABYTE, any_log())
        self.file = BoundedVectors(file, lambda: self.world.view().from_position, MEGABYTE)
        self.file.put(self.slots, self.rows)
        self.team = self.slots[np.array(scopes) == "team"]

    def ask(
        self, vectors: Vectors, query: str, scopes: tuple[str, ...], position: int
    ) -> RecallAnswer:
        return recall(
            self.world.view(),
            self.world.rows,
            RecallRequest(query=query, explain=True),
            load_profile("default"),
            reader(*scopes),
            Moment(position, NOW_US),
            semantics=Semantics(Directions(), vectors, 0.1),  # pyright: ignore[reportArgumentType]
            slots_of_cid=self.world.slots_of_cid,
            stopwatch=lambda: 0.0,
        )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    made = Stored(tmp_path_factory)
    assert made.file.in_file
    yield made
    made.file.close()


@given(
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True),
    scopes=st.sampled_from((("company",), ("team",), SCOPES)),
    back=st.sampled_from((0, 1, 200, 600)),
    compared=st.sampled_from((30, 6_000)),
)
@settings(max_examples=20, deadline=None)
def test_answers_are_those_of_a_node_with_room(
    stored: Stored, query: list[str], scopes: tuple[str, ...], back: int, compared: int
) -> None:
    asked = (" ".join(query), scopes, stored.world.position - back)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(semantic, "COMPARED_MIN", compared)
        answer = stored.ask(stored.file, *asked)
        assert answer == stored.ask(stored.memory, *asked)
    assert answer.results


@pytest.mark.parametrize("compared", [30, 6_000])
def test_unreadable_and_later_facts_change_nothing(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, compared: int
) -> None:
    monkeypatch.setattr(semantic, "COMPARED_MIN", compared)
    asked = ("tea boat", ("company",), int(stored.world.view().from_position[500]))
    before = stored.ask(stored.file, *asked)
    hidden = np.union1d(stored.team, stored.slots[501:]).astype(np.int32)
    query = Directions().query("tea boat")
    stored.file.put(hidden, np.tile(query, (len(hidden), 1)))
    assert stored.ask(stored.file, *asked) == before
    stored.file.put(hidden, stored.rows[hidden])
