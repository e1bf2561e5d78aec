"""Two engines given the same operations must give the same answers, in any order."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import AppendError
from engramlog.eventlog.event import Draft
from engramlog.eventlog.log import AppendTransaction, EventLog, Expect, Idempotency
from engramlog.replay.verify import verify
from tests.worlds.samples import COMPANY, ORIGIN, START_US, TEAM, seeded_salts
from tests.worlds.strategies import actors, drafts

batches = st.lists(drafts(), max_size=4)
keys = st.none() | st.builds(
    Idempotency, actors, st.sampled_from(["k1", "k2"]), st.sampled_from([b"d1", b"d2"])
)
conditions = st.none() | st.builds(
    Expect,
    stream=st.sampled_from([COMPANY, TEAM]),
    stream_seq=st.integers(0, 3),
    position=st.none() | st.integers(0, 4),
)
times = st.none() | st.integers(START_US - 5_000_000, START_US + 5_000_000)


class Agreement(RuleBasedStateMachine):
    """MemoryLog is the model for SqliteLog; also across reopening."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FixedClock(START_US)
        self.salts = seeded_salts()
        self.model = MemoryLog(ORIGIN, 1, self.clock, seeded_salts())
        self.tested = self.open_tested()
        self.open_transactions: tuple[AppendTransaction, AppendTransaction] | None = None

    def open_tested(self) -> SqliteLog:
        path = Path(self.folder.name) / "log.db"
        return SqliteLog.open(path, origin=ORIGIN, epoch=1, clock=self.clock, entropy=self.salts)

    @rule(delta_us=st.integers(-2_000_000, 2_000_000))
    def the_wall_clock_moves(self, delta_us: int) -> None:
        self.clock.advance(delta_us)

    @precondition(lambda self: self.open_transactions is None)
    @rule()
    def begin(self) -> None:
        self.open_transactions = (self.model.begin(), self.tested.begin())

    @precondition(lambda self: self.open_transactions is not None)
    @rule(batch=batches, received_at=times, key=keys, condition=conditions)
    def append(
        self,
        batch: list[Draft],
        received_at: int | None,
        key: Idempotency | None,
        condition: Expect | None,
    ) -> None:
        assert self.open_transactions is not None
        if key is not None:  # a request's events have its caller as actor
            batch = [replace(draft, actor=key.actor) for draft in batch]
        answers: list[object] = []
        for transaction in self.open_transactions:
            try:
                answers.append(
                    transaction.append(
                        batch, received_at=received_at, idempotency=key, expect=condition
                    )
                )
            except AppendError as refusal:
                answers.append((type(refusal), str(refusal)))
        assert answers[0] == answers[1]

    @precondition(lambda self: self.open_transactions is not None)
    @rule(keep=st.booleans())
    def end(self, keep: bool) -> None:
        assert self.open_transactions is not None
        for transaction in self.open_transactions:
            if keep:
                transaction.commit()
            else:
                transaction.rollback()
        self.open_transactions = None

    @precondition(lambda self: self.open_transactions is None)
    @rule()
    def reopen(self) -> None:
        self.tested.close()
        self.tested = self.open_tested()

    @rule(
        after=st.integers(0, 6),
        limit=st.integers(0, 6),
        streams=st.none() | st.sets(st.sampled_from([COMPANY, TEAM, f"{ORIGIN}/1/node"])),
        instant=st.integers(START_US - 6_000_000, START_US + 6_000_000),
    )
    def ask(self, after: int, limit: int, streams: set[str] | None, instant: int) -> None:
        assert self.model.read(after, limit, streams) == self.tested.read(after, limit, streams)
        stored = [log.read_stored(after, limit, streams) for log in (self.model, self.tested)]
        assert stored[0] == stored[1]
        assert self.model.position_at(instant) == self.tested.position_at(instant)

    @invariant()
    def both_end_alike_and_are_whole(self) -> None:
        assert self.model.head() == self.tested.head()
        assert self.model.stream_heads() == self.tested.stream_heads()
        assert verify(self.model) == verify(self.tested)
        assert verify(self.tested).fault is None

    def teardown(self) -> None:
        if self.open_transactions is not None:
            self.end(keep=False)
        self.tested.close()
        self.folder.cleanup()


Agreement.TestCase.settings = settings(stateful_step_count=25)
TestAgreement = Agreement.TestCase


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
@given(batch=st.lists(drafts(), min_size=1, max_size=8, unique_by=lambda draft: draft.event_id))
def test_any_draft_comes_back_as_it_went_in(engine: str, batch: list[Draft]) -> None:
    clock = FixedClock(START_US)
    with tempfile.TemporaryDirectory() as folder:
        log: EventLog = (
            MemoryLog(ORIGIN, 1, clock)
            if engine == "memory"
            else SqliteLog.open(Path(folder) / "log.db", origin=ORIGIN, epoch=1, clock=clock)
        )
        log.append(batch)
        events = log.read()
        log.close()
    assert [event.payload for event in events] == [draft.payload for draft in batch]
    assert [event.event_id for event in events] == [draft.event_id for draft in batch]
