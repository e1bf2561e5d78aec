"""The part of the contract of event log engines about erasing, and about other nodes' events."""

from contextlib import suppress

import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import decode
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.errors import AppendError, CorruptLog, EraseRefused, IdempotencyConflict
from engramlog.eventlog.event import Foreign, Recorded, Stored, Verified
from engramlog.eventlog.log import EventLog, Idempotency
from tests.worlds.samples import COMPANY, erase, erased, fact, facts

KEY = Idempotency("agent:alice", "request-1", b"digest of the body")


def verified(stored: Stored) -> Verified:
    """A stored event as another node sends it, once it is verified."""
    event = Foreign(stored.header, stored.hash, stored.salt, stored.payload)
    recorded = decode(stored)
    return Verified(event, recorded.header, recorded.payload)


def adopt(log: EventLog, events: list[Verified]) -> list[Recorded]:
    transaction = log.begin()
    try:
        adopted = transaction.adopt(events, "through").events
        transaction.commit()
    finally:
        transaction.rollback()
    return adopted


class ErasureContract:
    """See ``LogContract``, which inherits it."""

    def test_an_erasure_deletes_the_payload_and_keeps_header_and_chain(self, log: EventLog) -> None:
        first, second = log.append([fact("one"), fact("two")]).events
        before = log.read_stored()
        erase(log, first)
        stored, kept, by = log.read_stored()
        assert (stored.payload, stored.salt) == (None, None)
        assert (stored.header, stored.hash) == (before[0].header, before[0].hash)
        assert kept == before[1]
        assert [event.payload for event in log.read()][:2] == [None, second.payload]
        assert (by.position, log.head().position) == (3, 3)
        log.append([fact("three")])
        assert [event.header.prev_hash for event in log.read()][1:] == [
            event.hash for event in log.read()[:-1]
        ]

    def test_nothing_is_erased_that_no_event_names(self, log: EventLog) -> None:
        first, second = log.append([fact("one"), fact("two")]).events
        transaction = log.begin()
        transaction.append([erased(first)])
        transaction.erase([first.event_id, second.event_id])
        with pytest.raises(EraseRefused):
            transaction.commit()
        assert [event.payload for event in log.read()] == [first.payload, second.payload]
        assert log.append([fact("three")]).events[0].position == 3

    def test_a_name_given_before_is_enough_and_erasing_twice_is_nothing(
        self, log: EventLog
    ) -> None:
        (first,) = log.append([fact("one")]).events
        log.append([erased(first)])
        assert log.read()[0].payload == first.payload
        for _ in range(2):
            transaction = log.begin()
            transaction.erase([first.event_id])
            transaction.commit()
            assert log.read()[0].payload is None
        assert log.head().position == 2

    def test_an_event_that_names_erased_events_is_never_erased(self, log: EventLog) -> None:
        (first,) = log.append([fact("one")]).events
        (naming,) = log.append([erased(first)]).events
        transaction = log.begin()
        transaction.append([erased(naming)])
        transaction.erase([naming.event_id])
        with suppress(EraseRefused):
            transaction.commit()
        assert log.read()[1].payload == naming.payload

    def test_a_key_stays_used_after_its_events_are_erased(self, log: EventLog) -> None:
        (first,) = log.append([fact("one")], idempotency=KEY).events
        other = Idempotency(KEY.actor, "request-2", KEY.digest)
        log.append([fact("two")], idempotency=other)
        erase(log, first)
        with pytest.raises(IdempotencyConflict):
            log.append([fact("one")], idempotency=KEY)
        assert log.append([fact("two")], idempotency=other).replayed
        assert log.head().position == 3

    def test_positions_are_found_by_event_id(self, log: EventLog) -> None:
        first, second = log.append([fact("one"), fact("two")]).events
        erase(log, first)
        asked = [second.event_id, first.event_id, b"\xff" * 16]
        assert log.positions_of(asked) == {first.event_id: 1, second.event_id: 2}

    def test_adopted_events_keep_their_bytes_and_continue_their_stream(
        self, log: EventLog, clock: FixedClock
    ) -> None:
        own = log.append([fact("own")]).events[0]
        other = MemoryLog("other-node", 1, clock)
        other.append(facts(3))
        events = [verified(stored) for stored in other.read_stored()]
        for wrong in ([events[1]], [events[0], events[2]], [events[0], events[0]]):
            with pytest.raises((CorruptLog, AppendError)):
                adopt(log, wrong)
            assert log.head().position == 1
        assert adopt(log, events) == log.read(1)
        assert [each.event for each in events] == [
            Foreign(each.header, each.hash, each.salt, each.payload) for each in log.read_stored(1)
        ]
        assert [each.payload for each in log.read(1)] == [each.payload for each in other.read()]
        assert {each.peer for each in log.read(1)} == {"through"}
        assert log.stream_heads().keys() == {COMPANY, *other.stream_heads()}
        with pytest.raises(AppendError, match="already recorded"):
            adopt(log, events)
        assert log.append([fact("later")]).events[0].header.prev_hash == own.hash

    def test_adopted_events_are_received_no_earlier_than_those_before_them(
        self, log: EventLog, clock: FixedClock
    ) -> None:
        other = MemoryLog("other-node", 1, clock)
        other.append(facts(2))
        clock.advance(60_000_000)
        own = log.append([fact("own")]).events[0]
        clock.advance(-60_000_000)
        adopted = adopt(log, [verified(stored) for stored in other.read_stored()])
        assert [each.received_at for each in adopted] == [own.received_at] * 2
        assert own.received_hlc < adopted[0].received_hlc < adopted[1].received_hlc

    def test_scrubbing_changes_nothing_that_can_be_read(self, log: EventLog) -> None:
        first, _ = log.append([fact("one"), fact("two")]).events
        erase(log, first)
        before = log.read_stored()
        log.scrub()
        assert log.read_stored() == before
        assert log.append([fact("three")]).events[0].position == 4
