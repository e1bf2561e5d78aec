from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import apsw
import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.errors import StorageFailed, StorageFull
from engramlog.eventlog.kinds import DecayPolicy, EmbeddingModelPinned, Value
from engramlog.projections.arrays import F32
from engramlog.projections.embedding import service, worker
from engramlog.projections.embedding.cache import text_key
from engramlog.projections.embedding.choosing import Choice
from engramlog.projections.embedding.errors import BadAnswer, ProviderRefused, ProviderUnavailable
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.embedding.recipe import Space, composed, vectors_file
from engramlog.projections.embedding.service import Embeddings
from engramlog.projections.embedding.vectors import blocks as blocks_module
from engramlog.projections.embedding.vectors import in_memory as vectors_module
from engramlog.projections.embedding.vectors import loading
from engramlog.projections.embedding.vectors.vec_facts import VecFacts, VectorsDamaged
from engramlog.projections.embedding.vectors.vector_file import KeptVectorFile
from engramlog.projections.tables.declared.policies import pinned_model
from engramlog.projections.writing.commands import Done, EraseFacts, RetractFact, SweepDecay
from tests.worlds.damaged_files import DAMAGES, damage
from tests.worlds.histories import asserted
from tests.worlds.provider_double import CARD, SPACE, WordsProvider, words_vector
from tests.worlds.waiting import SECONDS_MAX, until

ENTITY = "stigmem://x.example/user/alice"


class Stage:
    """A node whose facts are embedded; ``restart`` stops and starts the embeddings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node = Node.open(folder / "data")
        self.provider = WordsProvider()
        self.embeddings = self.open()

    def open(self, space: Space = SPACE, memory_bytes: int | None = None) -> Embeddings:
        return Embeddings(
            self.folder,
            self.node.log,
            self.node.reader,
            Choice(self.provider, CARD, space, False),
            min_confidence=0.1,
            file="vectors.db" if space == SPACE else vectors_file(space),
            memory_bytes=memory_bytes,
        )

    def restart(self, while_stopped: Callable[[], Any] = lambda: None) -> None:
        self.embeddings.close()
        while_stopped()
        self.provider = WordsProvider()
        self.embeddings = self.open()

    def say(self, text: str, confidence: float = 1.0, relation: str = "memory:note") -> str:
        value = Value(type="text", v=text)
        intent = asserted(ENTITY, relation, value, scope="company", confidence=confidence)
        done = self.node.write(intent)[0]
        assert isinstance(done, Done)
        assert done.fact_id is not None
        return done.fact_id

    def retract(self, fact: str) -> None:
        self.node.write(RetractFact(fact_id=fact))

    def settled(self) -> list[str]:
        """Ids in the table once the worker has followed every write."""
        assert self.embeddings.worker.wait(self.node.log.head().position, SECONDS_MAX)
        return self.in_table()

    def in_table(self) -> list[str]:
        return sorted(self.vectors())

    def vectors(self) -> dict[str, bytes]:
        """The table's vectors by fact."""
        pages = [zip(ids, rows, strict=True) for ids, rows in self.embeddings._table.pages()]
        return {fact: row.tobytes() for page in pages for fact, row in page}

    def has_vector(self, fact: str) -> bool:
        slot = self.node.reader.slot_of(fact)
        return bool(self.embeddings.semantics.vectors.rows(np.array([slot], dtype=np.int32))[1][0])

    def close(self) -> None:
        self.embeddings.close()
        self.node.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def test_a_live_fact_is_embedded_as_its_composed_text(stage: Stage) -> None:
    fact = stage.say("likes tea")
    assert stage.settled() == [fact]
    assert stage.provider.embedded == ["alice memory:note likes tea"]
    query = words_vector("alice memory:note likes tea")
    slots = np.array([stage.node.reader.slot_of(fact)], dtype=np.int32)
    cosines, _ = stage.embeddings.semantics.vectors.cosines(query, slots)
    assert cosines[0] == pytest.approx(1.0, abs=1e-6)


def test_it_starts_from_blocks_and_takes_the_rest_from_the_table(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (vectors_module, blocks_module):
        monkeypatch.setattr(module, "BLOCK_SLOTS", 4)
    facts = [stage.say(f"says {number}") for number in range(6)]
    assert stage.settled() == sorted(facts)
    stage.embeddings.write_blocks()
    blocks = stage.folder / "vectors.blocks"
    assert [path.name for path in blocks.iterdir()] == ["00000000.block"]
    stage.retract(facts[1])
    stage.settled()
    later: list[str] = []
    stage.restart(lambda: later.append(stage.say("says more")))
    assert stage.settled() == sorted({*facts, *later} - {facts[1]})
    assert all(stage.has_vector(fact) for fact in (*facts, *later)), "the past too"
    assert stage.provider.embedded == ["alice memory:note says more"]
    stage.node.write(EraseFacts(erasure_id="e", fact_ids=(facts[2],)))
    stage.embeddings.purge(stage.node.log.head().position, {facts[2]}, [])
    assert list(blocks.iterdir()) == []


def held_up_loading(monkeypatch: pytest.MonkeyPatch) -> Event:
    """The table of vectors is gone through only once the event is set."""
    released = Event()

    def slow(*given: Any) -> Any:
        assert released.wait(SECONDS_MAX)
        yield from loading.load_vectors(*given)

    monkeypatch.setattr(worker, "load_vectors", slow)
    return released


def test_questions_wait_for_the_vectors_not_for_the_comparison_of_all_ids(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (vectors_module, blocks_module):
        monkeypatch.setattr(module, "BLOCK_SLOTS", 4)
    facts = [stage.say(f"says {number}") for number in range(6)]
    stage.settled()
    stage.embeddings.write_blocks()
    compared = held_up_loading(monkeypatch)
    stage.restart()
    stage.embeddings.worker.wait_until_usable(SECONDS_MAX)
    assert not stage.embeddings.worker.loaded
    assert all(map(stage.has_vector, facts))
    compared.set()
    assert stage.settled() == sorted(facts)


def test_without_files_questions_wait_for_the_table(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [stage.say(f"says {number}") for number in range(6)]
    stage.settled()
    asked = held_up_loading(monkeypatch)
    stage.restart()
    stage.embeddings.worker.wait_until_usable(0.0)
    assert not any(map(stage.has_vector, facts))
    asked.set()
    stage.embeddings.worker.wait_until_usable(SECONDS_MAX)
    assert all(map(stage.has_vector, facts))


class CountedReads(dict[int, None]):
    """Waiting facts; counts how often all are gone through."""

    reads = 0

    def __iter__(self) -> Iterator[int]:
        self.reads += 1
        return super().__iter__()


def test_callers_that_wait_do_not_go_through_all_waiting_facts(stage: Stage) -> None:
    stage.provider.gate.clear()
    stage.say("waits")
    assert stage.provider.asked.wait(SECONDS_MAX)
    embedding = stage.embeddings.worker
    waiting = embedding._waiting = CountedReads(embedding._waiting)
    for _ in range(20):
        assert embedding.status().lag == 1
        assert not embedding.wait(stage.node.log.head().position, 0.0)
    stage.provider.gate.set()
    assert waiting.reads < 20


def test_vectors_beyond_the_budget_lie_in_a_file_from_start_to_erasure(stage: Stage) -> None:
    stage.embeddings.close()
    budget = 3 * (4 * SPACE.dimensions + SPACE.dimensions // 8)
    stage.embeddings = stage.open(memory_bytes=budget)
    file = stage.folder / "vectors.db-search"
    facts = [stage.say(f"says {number}") for number in range(3)]
    stage.settled()
    assert not file.exists()
    assert stage.embeddings.worker.status().memory_bytes == budget
    facts += [stage.say(f"says {number}") for number in range(3, 6)]
    stage.settled()
    assert file.exists()
    stage.retract(facts[1])
    stage.settled()
    stage.embeddings.close()
    later = stage.say("says more")
    stage.provider = WordsProvider()
    stage.embeddings = stage.open(memory_bytes=budget)
    assert stage.settled() == sorted({*facts, later} - {facts[1]})
    assert all(stage.has_vector(fact) for fact in (*facts, later)), "the past too"
    assert stage.provider.embedded == ["alice memory:note says more"]
    erased = words_vector("alice memory:note says 2").tobytes()
    assert erased in files(stage)
    stage.node.write(EraseFacts(erasure_id="e", fact_ids=(facts[2],)))
    stage.embeddings.purge(stage.node.log.head().position, {facts[2]}, [])
    assert erased not in files(stage)
    stage.restart()
    stage.settled()
    assert stage.has_vector(facts[0])
    assert not file.exists(), "without a budget"


def test_a_damaged_file_of_vectors_is_made_again(stage: Stage) -> None:
    stage.embeddings.close()
    stage.embeddings = stage.open(memory_bytes=1)
    facts = [stage.say(f"says {number}") for number in range(3)]
    assert stage.settled() == sorted(facts)
    stage.embeddings.close()
    file = stage.folder / "vectors.db-search"
    with closing(apsw.Connection(str(file))) as db:
        root: Any = db.execute("SELECT rootpage FROM sqlite_schema WHERE name='vectors'").get
        size: Any = db.pragma("page_size")
    content = bytearray(file.read_bytes())
    content[(root - 1) * size : root * size] = bytes(size)
    file.write_bytes(content)
    stage.provider = WordsProvider()
    stage.embeddings = stage.open(memory_bytes=1)
    later = stage.say("says more")
    assert stage.settled() == sorted([*facts, later])
    assert all(stage.has_vector(fact) for fact in (*facts, later))
    assert stage.embeddings.worker.status().error is None


@pytest.mark.parametrize("in_file", [False, True])
def test_a_full_disk_during_an_erasure_leaves_no_vector(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, in_file: bool
) -> None:
    """Neither in blocks nor in the file for vectors beyond the budget."""
    for module in (vectors_module, blocks_module):
        monkeypatch.setattr(module, "BLOCK_SLOTS", 2)
    stage.embeddings.close()
    stage.embeddings = stage.open(memory_bytes=1 if in_file else None)
    facts = [stage.say(f"says {number}") for number in range(2)]
    assert stage.settled() == sorted(facts)
    stage.embeddings.write_blocks()
    erased = words_vector("alice memory:note says 1").tobytes()
    assert erased in files(stage)
    failing, method = (KeptVectorFile, "remove") if in_file else (VecFacts, "write")
    working = getattr(failing, method)
    attempts = count()

    def full_once(*args: Any, **named: Any) -> None:
        if next(attempts) == 0:
            raise apsw.FullError("disk full")
        working(*args, **named)

    monkeypatch.setattr(failing, method, full_once)
    stage.node.write(EraseFacts(erasure_id="e", fact_ids=(facts[1],)))
    until(lambda: stage.embeddings.worker.status().error)
    third = stage.say("says more")
    assert stage.settled() == sorted([facts[0], third])
    until(lambda: stage.embeddings.worker.status().error is None)
    stage.embeddings.purge(stage.node.log.head().position, {facts[1]}, [])
    stage.embeddings.write_blocks()
    assert erased not in files(stage)


def files(stage: Stage) -> bytes:
    found = [*stage.folder.glob("*.db*"), *stage.folder.glob("*.blocks/*")]
    return b"".join(each.read_bytes() for each in found)


def test_the_writes_of_a_burst_are_embedded_together_and_no_caller_waits_for_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    embed = stage.provider.embed

    def counted(texts: Sequence[str], purpose: Purpose = "document") -> F32:
        sizes.append(len(texts))
        return embed(texts, purpose)

    monkeypatch.setattr(stage.provider, "embed", counted)
    monkeypatch.setattr(worker, "GATHER_SECONDS", 10 * SECONDS_MAX)
    first = stage.say("one")
    until(lambda: stage.in_table() == [first])
    burst = [stage.say(text) for text in ("two", "three", "four")]
    assert stage.settled() == sorted([first, *burst])
    assert sizes == [1, 3]


def test_facts_under_the_threshold_are_not_embedded(stage: Stage) -> None:
    stage.say("faint", confidence=0.1)
    kept = stage.say("firm", confidence=0.11)
    assert stage.settled() == [kept]


def test_a_retracted_fact_leaves_the_table_but_not_the_past(stage: Stage) -> None:
    fact = stage.say("gone soon")
    assert stage.settled() == [fact]
    stage.retract(fact)
    assert stage.settled() == []
    assert stage.has_vector(fact)


def test_contradicting_facts_both_keep_their_vectors(stage: Stage) -> None:
    facts = [
        stage.say("is CEO", relation="memory:role"),
        stage.say("is CTO", relation="memory:role"),
    ]
    assert stage.settled() == sorted(facts)


def test_a_fact_that_fades_leaves_and_one_whose_confidence_is_restored_returns(
    stage: Stage,
) -> None:
    old = stage.say("fades")
    assert stage.settled() == [old]
    fade = DecayPolicy(id="fade", mode="confidence", half_life_s=1e-9, min_confidence=0.0)
    sleep(0.001)
    stage.node.write(SweepDecay(scopes=("company",), policies=(fade,)))
    assert stage.settled() == []
    mild = DecayPolicy(id="fade", mode="confidence", half_life_s=1e9, min_confidence=0.0)
    stage.node.write(SweepDecay(scopes=("company",), policies=(mild,)))
    assert stage.settled() == [old]
    assert stage.provider.embedded == ["alice memory:note fades"]  # then from the cache


def test_it_continues_where_it_was_stopped(stage: Stage) -> None:
    kept, ended = stage.say("kept"), stage.say("ended")
    assert stage.settled() == sorted([kept, ended])
    late: list[str] = []

    def meanwhile() -> None:
        late.append(stage.say("late"))
        stage.retract(ended)

    stage.restart(meanwhile)
    assert stage.settled() == sorted([kept, *late])
    assert stage.provider.embedded == ["alice memory:note late"]


def test_a_deleted_table_is_filled_again_from_the_cache(stage: Stage) -> None:
    facts = [stage.say(f"fact {n}") for n in range(600)]
    ended = stage.say("ended")
    assert stage.settled() == sorted([*facts, ended])
    stage.retract(ended)
    assert stage.settled() == sorted(facts)

    def meanwhile() -> None:
        for path in stage.folder.glob("vectors.db*"):
            path.unlink()

    stage.restart(meanwhile)
    assert stage.settled() == sorted(facts)
    assert stage.provider.embedded == []
    until(lambda: stage.has_vector(ended))  # for questions about the past


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_table_is_made_again_from_the_cache(stage: Stage, how: str) -> None:
    facts = [stage.say(f"fact {n}") for n in range(300)]
    assert stage.settled() == sorted(facts)
    stage.restart(lambda: damage(stage.folder / "vectors.db", how))
    assert stage.settled() == sorted(facts)
    assert stage.provider.embedded == []
    later = stage.say("later")
    assert stage.settled() == sorted([*facts, later])
    assert all(stage.has_vector(fact) for fact in (*facts, later))


def test_a_vector_with_a_flipped_bit_is_made_again(stage: Stage) -> None:
    facts = [stage.say(f"fact {n}") for n in range(3)]
    assert stage.settled() == sorted(facts)
    before = stage.vectors()

    def flip() -> None:
        with closing(apsw.Connection(str(stage.folder / "vectors.db"))) as db:
            chunk = bytearray(db.execute("SELECT vectors FROM vec_facts_vector_chunks00").get)
            chunk[chunk.index(before[facts[1]]) + 3] ^= 128  # the sign of its first number
            db.execute("UPDATE vec_facts_vector_chunks00 SET vectors=?", (bytes(chunk),))

    stage.restart(flip)
    assert stage.settled() == sorted(facts)
    assert stage.vectors() == before
    assert stage.provider.embedded == []


def test_a_vector_whose_id_has_a_flipped_bit_is_made_again(stage: Stage) -> None:
    facts = [stage.say(f"fact {n}") for n in range(3)]
    assert stage.settled() == sorted(facts)
    file = stage.folder / "vectors.db"

    def flip() -> None:
        with closing(apsw.Connection(str(file))) as db:
            root: Any = db.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name='vec_facts_rowids'"
            ).get
        content = bytearray(file.read_bytes())
        content[content.index(facts[1].encode(), (root - 1) * 4096)] ^= 1
        file.write_bytes(content)

    stage.restart(flip)
    later = stage.say("later")
    assert stage.settled() == sorted([*facts, later])
    assert stage.embeddings.worker.status().error is None


def test_damage_found_by_a_write_is_mended_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [stage.say(f"fact {n}") for n in range(3)]
    assert stage.settled() == sorted(facts)
    table = stage.embeddings._table

    def damaged(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise VectorsDamaged("vectors.db is damaged")

    monkeypatch.setattr(table, "write", damaged)
    later = stage.say("later")
    assert stage.settled() == sorted([*facts, later])


def test_while_the_provider_is_away_writes_go_on_and_ends_are_followed(stage: Stage) -> None:
    early = stage.say("early")
    assert stage.settled() == [early]
    stage.provider.fault = ProviderUnavailable("away", retry_after_seconds=0.2)
    before = stage.node.log.head().position
    late = stage.say("late")
    stage.retract(early)
    until(lambda: stage.in_table() == [])
    until(lambda: stage.embeddings.worker.status().error == "away")
    status = stage.embeddings.worker.status()
    assert (status.waiting, status.position) == (1, before)
    assert status.lag == 2
    assert not stage.embeddings.worker.wait(before + 1, 0.05)
    stage.provider.fault = None
    assert stage.settled() == [late]
    assert stage.embeddings.worker.status().error is None
    assert stage.embeddings.worker.status().lag == 0


def test_an_end_is_followed_before_the_facts_that_still_wait_are_embedded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "CHUNK_FACTS", 1)
    stage.provider.fault = ProviderUnavailable("away", retry_after_seconds=0.2)
    facts = [stage.say(f"fact {number}") for number in range(4)]
    until(lambda: stage.embeddings.worker.status().waiting == 4)
    embed, begun = stage.provider.embed, Event()

    def noted(texts: Sequence[str], purpose: Purpose = "document") -> F32:
        begun.set()
        return embed(texts, purpose)

    stage.provider.gate.clear()
    stage.provider.fault = None
    monkeypatch.setattr(stage.provider, "embed", noted)
    assert begun.wait(SECONDS_MAX)
    stage.retract(facts[3])
    stage.provider.gate.set()
    assert stage.settled() == sorted(facts[:3])
    assert "alice memory:note fact 3" not in stage.provider.embedded


def test_a_refused_text_does_not_delay_the_others(stage: Stage) -> None:
    stage.provider.gate.clear()
    first = stage.say("first")
    until(lambda: stage.embeddings.worker.status().waiting == 1)
    stage.provider.refused = {
        "alice memory:note poison": ProviderRefused("too long"),
        "alice memory:note garbled": BadAnswer("no numbers"),
    }
    stage.say("poison")
    others = [stage.say("other"), stage.say("another")]
    stage.say("garbled")
    stage.provider.gate.set()
    assert stage.settled() == sorted([first, *others])
    assert stage.embeddings.worker.status().skipped == 2


def test_a_provider_that_refuses_everything_leaves_all_waiting(stage: Stage) -> None:
    stage.provider.fault = ProviderRefused("wrong key")
    stage.say("one")
    until(lambda: stage.embeddings.worker.status().error == "wrong key")
    assert stage.embeddings.worker.status().waiting == 1
    assert stage.embeddings.worker.status().skipped == 0


def test_reindexing_embeds_every_live_fact_again(stage: Stage) -> None:
    facts = [stage.say("one"), stage.say("two")]
    assert stage.settled() == sorted(facts)
    stage.embeddings.close()
    stage.embeddings = stage.open(Space("double", "words", 64, truncated=16))
    assert stage.settled() == sorted(facts)
    rows, present = stage.embeddings.semantics.vectors.rows(np.array([0, 1], dtype=np.int32))
    assert rows.shape == (2, 16)
    assert np.linalg.norm(rows[present], axis=1) == pytest.approx(1.0, abs=1e-6)


def test_erasure_leaves_no_vector_in_any_file(stage: Stage) -> None:
    secret = stage.say("secret")
    other = stage.say("other")
    assert stage.settled() == sorted([secret, other])
    data = words_vector("alice memory:note secret").tobytes()[:64]
    assert [path for path in stage.folder.glob("*.db*") if data in path.read_bytes()]
    stage.node.write(EraseFacts(erasure_id="e", fact_ids=(secret,)))
    reader, head = stage.node.reader, stage.node.log.head().position
    for _ in range(2):
        said = [
            text_key(composed(row.entity, row.relation, row.value_v))
            for page in reader.fact_pages()
            for row in page
        ]
        stage.embeddings.purge(head, {secret}, said)
        assert stage.in_table() == [other]
        assert len(stage.embeddings.cache.get_many(SPACE, ["alice memory:note other"])) == 1
        for path in stage.folder.glob("*.db*"):
            assert data not in path.read_bytes(), path.name
    third = stage.say("third")
    assert stage.settled() == sorted([other, third])


def test_a_purge_waits_for_no_provider_that_hangs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PURGE_WAIT_SECONDS", 0.05)
    secret = stage.say("secret")
    assert stage.settled() == [secret]
    stage.node.write(EraseFacts(erasure_id="e", fact_ids=(secret,)))
    assert stage.settled() == []
    position = stage.node.log.head().position
    stage.provider.gate.clear()
    stage.say("other")
    until(lambda: stage.embeddings.worker.status().waiting)
    with pytest.raises(StorageFailed, match="has not answered"):
        stage.embeddings.purge(position, {secret}, [])
    stage.provider.gate.set()
    stage.settled()
    stage.embeddings.purge(position, {secret}, [])


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (apsw.FullError("disk full"), StorageFull, "no space left for the vectors: disk full"),
        (apsw.IOError("disk I/O error"), StorageFailed, "the vectors: disk I/O error"),
    ],
)
def test_a_purge_that_storage_stops_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fault: Exception, error: Any, says: str
) -> None:
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(stage.embeddings.cache, "keep_only", fail)
    with pytest.raises(error, match=says):
        stage.embeddings.purge(stage.node.log.head().position, {}, [])


def test_closing_does_not_wait_for_queued_facts(stage: Stage) -> None:
    stage.provider.fault = ProviderUnavailable("away", retry_after_seconds=1000)
    stage.say("one")
    until(lambda: stage.embeddings.worker.status().error == "away")
    # If it waited for the next attempt, the test would reach its time limit.
    stage.embeddings.close()
    stage.embeddings.close()


def test_the_pinned_model_is_an_event_and_pinned_once(stage: Stage) -> None:
    pin = EmbeddingModelPinned(provider="double", model="words", dimensions=64, recipe="fact/1")
    assert stage.node.reader.ask(pinned_model, stage.node.log.head().position) is None
    before = stage.node.log.head().position
    stage.node.write(pin)
    stage.node.write(pin)
    head = stage.node.log.head().position
    assert head == before + 1
    pinned = stage.node.reader.ask(pinned_model, head)
    assert pinned is not None
    assert (pinned.model, pinned.dimensions) == ("words", 64)
    assert stage.node.reader.ask(pinned_model, before) is None


def test_a_provider_that_ends_with_the_worker_is_no_fault(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.provider.gate.clear()
    stage.provider.fault = ProviderUnavailable("the process ended")
    stage.say("likes tea")
    assert stage.provider.asked.wait(SECONDS_MAX)
    stage.embeddings.close()  # opens the gate, as it closes the provider
    assert caplog.messages == []
