"""The contract of every event log engine. Each engine's test class inherits it."""

import threading
from collections.abc import Iterator

import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import ZERO_HASH, decode, header_hash, payload_hash
from engramlog.eventlog.errors import (
    AppendError,
    ExpectationFailed,
    IdempotencyConflict,
    LogClosed,
    PayloadTooLarge,
)
from engramlog.eventlog.event import Draft
from engramlog.eventlog.kinds import FactAsserted, SourceTrustSet, Value
from engramlog.eventlog.log import EventLog, Expect, Head, Idempotency, StreamHead
from tests.eventlog.erasure_contract import KEY, ErasureContract
from tests.worlds.samples import (
    COMPANY,
    ORIGIN,
    START_US,
    TEAM,
    fact,
    facts,
)


class LogContract(ErasureContract):
    """Subclasses provide the ``clock`` and ``log`` fixtures."""

    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock(START_US)

    @pytest.fixture
    def log(self, clock: FixedClock) -> EventLog | Iterator[EventLog]:
        raise NotImplementedError

    # -- append and read

    def test_an_empty_log_ends_at_zero(self, log: EventLog) -> None:
        assert log.head() == Head()
        assert log.stream_heads() == {}
        assert log.read() == []
        assert log.received_at(0) == 0

    def test_positions_are_gapless_from_one_over_all_streams(self, log: EventLog) -> None:
        log.append([fact(), fact(scope="team")])
        log.append(facts(3))
        assert [event.position for event in log.read()] == [1, 2, 3, 4, 5]

    def test_each_stream_counts_for_itself_from_one(self, log: EventLog) -> None:
        log.append([fact(), fact(scope="team"), fact(), fact(scope="team")])
        places = [(event.header.stream, event.header.stream_seq) for event in log.read()]
        assert places == [(COMPANY, 1), (TEAM, 1), (COMPANY, 2), (TEAM, 2)]

    def test_each_event_names_the_hash_before_it_in_its_stream(self, log: EventLog) -> None:
        log.append([fact(), fact(scope="team"), fact()])
        first, other, second = log.read()
        assert first.header.prev_hash == other.header.prev_hash == ZERO_HASH
        assert second.header.prev_hash == first.hash

    def test_append_and_read_return_the_same_events(self, log: EventLog) -> None:
        appended = log.append([fact("one"), fact("two", scope="team")])
        assert log.read() == appended.events
        assert not appended.replayed

    def test_stored_bytes_match_the_hashes_in_the_header(self, log: EventLog) -> None:
        log.append(facts(2))
        for stored, recorded in zip(log.read_stored(), log.read(), strict=True):
            assert header_hash(stored.header) == stored.hash == recorded.hash
            assert stored.salt is not None
            assert stored.payload is not None
            assert payload_hash(stored.salt, stored.payload) == recorded.header.payload_hash
            assert decode(stored) == recorded

    def test_equal_payloads_get_different_commitments(self, log: EventLog) -> None:
        log.append([fact("same"), fact("same")])
        first, second = log.read()
        assert first.header.payload_hash != second.header.payload_hash

    def test_read_gives_at_most_limit_events_after_the_position(self, log: EventLog) -> None:
        log.append(facts(10))
        assert [event.position for event in log.read(after=4, limit=3)] == [5, 6, 7]
        assert log.read(after=10) == []
        assert log.read(limit=0) == []

    def test_a_stream_is_read_up_to_so_many_bytes_and_one_event_at_least(
        self, log: EventLog
    ) -> None:
        log.append([fact("x" * 1_000, scope="team"), *(fact("y" * 1_000) for _ in range(4))])
        whole = log.read_stream(COMPANY)
        sizes = [len(each.header) + len(each.payload or b"") for each in whole]
        for bytes_max, count in ((1, 1), (sum(sizes[:2]) - 1, 1), (sum(sizes[:2]), 2), (10**6, 4)):
            assert log.read_stream(COMPANY, 0, 10, bytes_max) == whole[:count], bytes_max
        assert log.read_stream(COMPANY, 2, 1, 10**6) == whole[2:3]
        assert log.read_stream(COMPANY, 4, 10, 1) == []

    def test_events_are_read_up_to_so_many_bytes_and_one_at_least(self, log: EventLog) -> None:
        log.append([fact("x" * 1_000, scope=("company", "team")[n % 2]) for n in range(5)])
        for streams in (None, [COMPANY]):
            whole = log.read(streams=streams)
            sizes = [
                len(each.header) + len(each.payload or b"")
                for each in log.read_stored(streams=streams)
            ]
            two = sum(sizes[:2])
            for bytes_max, count in ((1, 1), (two - 1, 1), (two, 2), (10**6, len(whole))):
                assert log.read(0, 10, streams, bytes_max) == whole[:count], bytes_max
            assert log.read(whole[0].position, 1, streams, 10**6) == whole[1:2]
            assert log.read(5, 10, streams, 1) == []

    def test_read_refuses_a_limit_it_would_not_serve(self, log: EventLog) -> None:
        with pytest.raises(ValueError, match="limit"):
            log.read(limit=100_001)

    def test_read_keeps_to_the_named_streams_in_position_order(self, log: EventLog) -> None:
        log.append([fact(), fact(scope="team"), fact(scope="public"), fact(), fact(scope="team")])
        assert [event.position for event in log.read(streams={COMPANY})] == [1, 4]
        assert [event.position for event in log.read(streams=[TEAM, COMPANY])] == [1, 2, 4, 5]
        assert [event.position for event in log.read(1, 2, [TEAM, COMPANY])] == [2, 4]
        assert [stored.position for stored in log.read_stored(streams=[TEAM])] == [2, 5]
        assert log.read(streams=["no such stream"]) == []
        assert log.read(streams=[]) == []

    def test_iterate_returns_all_events_in_order_up_to_until(self, log: EventLog) -> None:
        log.append(facts(2500))
        assert [event.position for event in log.iterate()] == list(range(1, 2501))
        assert [event.position for event in log.iterate(1200, 1203)] == [1201, 1202, 1203]
        assert list(log.iterate(5, 5)) == []

    def test_heads_name_the_last_event_of_the_log_and_of_each_stream(self, log: EventLog) -> None:
        events = log.append([fact(), fact(scope="team"), fact()]).events
        assert log.head() == Head(3, events[2].received_at, events[2].received_hlc)
        assert log.stream_heads() == {
            COMPANY: StreamHead(COMPANY, 2, events[2].hash),
            TEAM: StreamHead(TEAM, 1, events[1].hash),
        }

    def test_the_header_names_origin_and_actor(self, log: EventLog) -> None:
        header = log.append([fact(actor="agent:bob")]).events[0].header
        assert (header.actor, header.origin, log.origin, log.epoch) == (
            "agent:bob",
            ORIGIN,
            ORIGIN,
            1,
        )

    # -- time

    def test_received_at_is_the_clock_and_never_goes_back(
        self, log: EventLog, clock: FixedClock
    ) -> None:
        log.append([fact()])
        clock.advance(-60_000_000)
        log.append([fact()])
        clock.set(START_US + 5)
        log.append([fact()])
        assert [event.received_at for event in log.read()] == [START_US, START_US, START_US + 5]

    def test_a_given_received_at_counts_and_an_earlier_one_is_raised(self, log: EventLog) -> None:
        log.append([fact()], received_at=1000)
        log.append([fact()], received_at=3000)
        log.append([fact()], received_at=2000)
        assert [event.received_at for event in log.read()] == [1000, 3000, 3000]
        assert [event.header.recorded_at for event in log.read()] == [1000, 3000, 3000]

    def test_hybrid_clock_readings_increase_strictly(
        self, log: EventLog, clock: FixedClock
    ) -> None:
        log.append(facts(3))
        clock.advance(-1_000_000)
        log.append(facts(2))
        readings = [event.header.hlc for event in log.read()]
        assert readings == sorted(set(readings))
        assert readings == [event.received_hlc for event in log.read()]

    def test_position_at_is_the_last_position_received_by_then(self, log: EventLog) -> None:
        for received_at in (1000, 2000, 2000, 3000):
            log.append([fact()], received_at=received_at)
        positions = [log.position_at(instant) for instant in (999, 1000, 1999, 2000, 2500, 9999)]
        assert positions == [0, 1, 1, 3, 3, 4]

    def test_received_at_of_a_position_beyond_the_head_is_an_index_error(
        self, log: EventLog
    ) -> None:
        log.append([fact()], received_at=1000)
        assert log.received_at(1) == 1000
        for position in (2, -1):
            with pytest.raises(IndexError):
                log.received_at(position)

    # -- idempotency and conditions

    def test_the_same_key_and_digest_returns_the_first_events(self, log: EventLog) -> None:
        log.append([fact()])
        first = log.append([fact("one"), fact("two")], idempotency=KEY)
        again = log.append([fact("one"), fact("two")], idempotency=KEY)
        assert again.replayed
        assert again.events == first.events
        assert log.head().position == 3
        assert [event.header.idempotency_key for event in first.events] == ["request-1"] * 2

    def test_the_same_key_with_another_digest_is_a_conflict(self, log: EventLog) -> None:
        log.append([fact()], idempotency=KEY)
        with pytest.raises(IdempotencyConflict, match="request-1"):
            log.append([fact()], idempotency=Idempotency(KEY.actor, KEY.key, b"another body"))
        assert log.head().position == 1

    def test_keys_of_two_actors_are_two_keys(self, log: EventLog) -> None:
        log.append([fact()], idempotency=KEY)
        other = log.append([fact()], idempotency=Idempotency("agent:bob", KEY.key, b"other"))
        assert not other.replayed
        assert log.head().position == 2

    def test_an_idempotency_key_works_within_its_transaction(self, log: EventLog) -> None:
        transaction = log.begin()
        transaction.append([fact()])
        first = transaction.append([fact("keyed")], idempotency=KEY)
        transaction.append([fact()])
        assert transaction.append([fact("keyed")], idempotency=KEY).events == first.events
        with pytest.raises(IdempotencyConflict):
            transaction.replayed(Idempotency(KEY.actor, KEY.key, b"another body"))
        transaction.commit()
        assert log.head().position == 3

    def test_a_key_that_recorded_nothing_is_remembered_too(self, log: EventLog) -> None:
        log.append([fact()])
        assert log.append([], idempotency=KEY).events == []
        again = log.append([fact()], idempotency=KEY)
        assert again.replayed
        assert again.events == []
        assert log.head().position == 1

    def test_a_key_rolled_back_was_never_used(self, log: EventLog) -> None:
        transaction = log.begin()
        transaction.append([fact()], idempotency=KEY)
        transaction.rollback()
        transaction = log.begin()
        assert transaction.replayed(KEY) is None
        transaction.rollback()

    def test_a_conditional_append_needs_its_condition(self, log: EventLog) -> None:
        log.append(facts(2), expect=Expect(position=0))
        log.append([fact()], expect=Expect(stream=COMPANY, stream_seq=2))
        log.append([fact(scope="team")], expect=Expect(stream=TEAM, stream_seq=0, position=3))
        with pytest.raises(ExpectationFailed, match=r"log position: expected 3, is 4"):
            log.append([fact()], expect=Expect(position=3))
        with pytest.raises(ExpectationFailed, match=r"company: expected 2, is 3"):
            log.append([fact()], expect=Expect(stream=COMPANY, stream_seq=2))
        assert log.head().position == 4

    def test_a_condition_sees_what_its_own_transaction_appended(self, log: EventLog) -> None:
        transaction = log.begin()
        transaction.append([fact()])
        transaction.append([fact()], expect=Expect(stream=COMPANY, stream_seq=1, position=1))
        transaction.commit()

    # -- transactions

    def test_a_transaction_is_visible_only_after_commit(self, log: EventLog) -> None:
        transaction = log.begin()
        transaction.append(facts(2))
        assert log.head() == Head()
        assert log.read() == []
        assert log.stream_heads() == {}
        transaction.commit()
        assert len(log.read()) == log.head().position == 2

    def test_a_rollback_leaves_nothing_and_the_next_continues_as_if_it_never_was(
        self, log: EventLog, clock: FixedClock
    ) -> None:
        before = log.append([fact()]).events[0]
        clock.advance(10)
        transaction = log.begin()
        clock.advance(10)
        transaction.append([fact(), fact(scope="team")])
        transaction.rollback()
        transaction.rollback()
        clock.set(START_US + 1)
        after = log.append([fact(), fact(scope="team")]).events
        assert [event.position for event in log.read()] == [1, 2, 3]
        assert after[0].header.prev_hash == before.hash
        assert after[0].received_at == START_US + 1
        assert [event.header.stream_seq for event in after] == [2, 1]

    def test_an_empty_commit_changes_nothing(self, log: EventLog) -> None:
        log.append([fact()])
        before = log.head()
        log.begin().commit()
        log.append([])
        assert log.head() == before

    def test_a_transaction_that_is_over_takes_no_more(self, log: EventLog) -> None:
        transaction = log.begin()
        transaction.commit()
        with pytest.raises(RuntimeError, match="over"):
            transaction.append([fact()])

    def test_a_second_transaction_in_one_thread_is_refused_instead_of_waiting_for_ever(
        self, log: EventLog
    ) -> None:
        transaction = log.begin()
        with pytest.raises(RuntimeError, match="already has a transaction"):
            log.begin()
        transaction.rollback()
        log.begin().rollback()

    def test_a_transaction_open_when_the_log_closes_is_lost_with_an_error(
        self, log: EventLog
    ) -> None:
        transaction = log.begin()
        transaction.append([fact()])
        log.close()
        with pytest.raises(LogClosed):
            transaction.commit()

    def test_an_append_that_is_refused_leaves_the_transaction_as_it_was(
        self, log: EventLog
    ) -> None:
        huge = FactAsserted(
            entity="e:1",
            relation="r",
            value=Value(type="text", v="x" * (4 * 1024 * 1024)),
            source="agent:alice",
            scope="company",
        )
        transaction = log.begin()
        transaction.append([fact("kept")])
        draft = fact()
        with pytest.raises(PayloadTooLarge):
            transaction.append([draft, Draft(huge, draft.partition, bytes(16), draft.actor)])
        transaction.append([draft])
        transaction.commit()
        assert [event.header.stream_seq for event in log.read()] == [1, 2]

    def test_a_payload_that_could_not_be_read_back_is_refused(self, log: EventLog) -> None:
        unreadable = SourceTrustSet(source="agent:alice", trust=float("nan"))
        with pytest.raises(AppendError, match="read back"):
            log.append([Draft(unreadable, "node", bytes(16), "agent:alice")])
        assert log.head() == Head()

    @pytest.mark.parametrize("place", ["same append", "same transaction", "earlier commit"])
    def test_an_event_id_is_recorded_once(self, log: EventLog, place: str) -> None:
        draft, later = fact(), fact()
        if place == "earlier commit":
            log.append([draft, later])
        transaction = log.begin()
        if place == "same transaction":
            transaction.append([draft])
        with pytest.raises(AppendError, match="already recorded"):
            transaction.append([draft, draft] if place == "same append" else [draft])
        transaction.rollback()
        assert log.head().position == (2 if place == "earlier commit" else 0)

    def test_an_event_id_has_16_bytes(self, log: EventLog) -> None:
        with pytest.raises(AppendError, match="15 bytes"):
            log.append([msgspec.structs.replace(fact(), event_id=bytes(15))])
        assert log.head() == Head()

    def test_a_transaction_takes_no_more_events_than_the_limit(
        self, log: EventLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("engramlog.eventlog.engines.appending.TRANSACTION_EVENTS_MAX", 3)
        transaction = log.begin()
        transaction.append(facts(2))
        with pytest.raises(AppendError, match="4 events, over 3"):
            transaction.append(facts(2))
        transaction.append([fact()])
        transaction.commit()
        assert log.head().position == 3

    def test_an_older_event_id_that_is_new_is_recorded(self, log: EventLog) -> None:
        older, newer = fact(), fact()
        log.append([newer])
        log.append([older])
        assert [event.event_id for event in log.read()] == [newer.event_id, older.event_id]

    def test_writers_in_several_threads_take_turns(self, log: EventLog) -> None:
        batches = [facts(5) for _ in range(20)]
        threads = [threading.Thread(target=log.append, args=(batch,)) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [event.header.stream_seq for event in log.read()] == list(range(1, 101))

    # -- subscriptions and closing

    def test_a_subscription_delivers_existing_events_then_new_ones(self, log: EventLog) -> None:
        log.append(facts(3))
        subscription = log.subscribe(after=1)
        assert [event.position for event in subscription.take(10, 0)] == [2, 3]
        assert subscription.take(10, 0) == []
        log.append([fact()])
        assert [event.position for event in subscription.take(10, 0)] == [4]
        subscription.close()

    def test_a_commit_in_another_thread_wakes_a_subscription(self, log: EventLog) -> None:
        subscription = log.subscribe()
        timer = threading.Timer(0.05, log.append, args=([fact()],))
        timer.start()
        assert [event.position for event in subscription.take(10, 30)] == [1]
        timer.join()

    def test_a_subscription_keeps_to_its_streams_and_its_limit(self, log: EventLog) -> None:
        subscription = log.subscribe(streams=[TEAM])
        log.append([fact(), fact(scope="team"), fact(scope="team"), fact()])
        assert [event.position for event in subscription.take(1, 0)] == [2]
        assert [event.position for event in subscription.take(1, 0)] == [3]
        assert subscription.take(1, 0) == []

    def test_closing_a_subscription_ends_its_wait(self, log: EventLog) -> None:
        subscription = log.subscribe()
        timer = threading.Timer(0.05, subscription.close)
        timer.start()
        assert subscription.take(10, 30) == []
        timer.join()

    def test_closing_the_log_ends_the_wait_of_its_subscriptions(self, log: EventLog) -> None:
        subscription = log.subscribe()
        timer = threading.Timer(0.05, log.close)
        timer.start()
        with pytest.raises(LogClosed):
            subscription.take(10, 30)
        timer.join()

    def test_every_call_of_a_closed_log_raises_log_closed(self, log: EventLog) -> None:
        log.append([fact()])
        log.close()
        log.close()
        for use in (
            log.read,
            log.read_stored,
            log.head,
            log.stream_heads,
            log.begin,
            log.subscribe,
            lambda: list(log.iterate()),
            lambda: log.append([fact()]),
            lambda: log.position_at(0),
            lambda: log.received_at(0),
        ):
            with pytest.raises(LogClosed):
                use()
