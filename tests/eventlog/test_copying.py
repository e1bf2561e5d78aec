"""A copy of a log equals it, byte for byte and position for position, or is refused."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import CorruptLog, EventLogError, IdempotencyConflict
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import Idempotency
from tests.eventlog.erasure_contract import adopt, verified
from tests.worlds.samples import START_US, erase, erased, fact, facts, open_log

OTHER = "stigmem:node:00000000-0000-4000-8000-000000000001"


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[SqliteLog]:
    clock = FixedClock(START_US)
    with open_log(tmp_path / "primary.db", clock) as log:
        log.append(facts(3, scope="company"))
        clock.advance(5)
        log.append(facts(2, scope="team"))
        log.append(facts(2), idempotency=Idempotency("agent:alice", "k1", b"digest"))
        yield log


def copy_at(path: Path) -> SqliteLog:
    return SqliteLog.open(path, origin=OTHER, epoch=1, clock=FixedClock(START_US + 999))


def test_a_copy_equals_its_original_however_it_was_cut_into_pages(
    primary: SqliteLog, tmp_path: Path
) -> None:
    everything = primary.read_stored(0, 100)
    for size in (1, 2, 3, 7):
        with copy_at(tmp_path / f"copy{size}.db") as copy:
            for first in range(0, len(everything), size):
                page = everything[first : first + size]
                copy.copy(page, primary.keys_of(page))
            assert copy.read_stored(0, 100) == everything
            assert copy.head() == primary.head()
            assert copy.stream_heads() == primary.stream_heads()
        with copy_at(tmp_path / f"copy{size}.db") as again:
            assert again.read_stored(0, 100) == everything


def test_every_altered_byte_is_refused_and_nothing_of_the_page_kept(
    primary: SqliteLog, tmp_path: Path
) -> None:
    everything = primary.read_stored(0, 100)
    with copy_at(tmp_path / "copy.db") as copy:
        for number in (0, 4):
            for field in ("header", "hash", "salt", "payload"):
                original: bytes = getattr(everything[number], field)
                for place in range(len(original)):
                    altered = bytearray(original)
                    altered[place] ^= 1
                    page = list(everything)
                    page[number] = msgspec.structs.replace(
                        everything[number], **{field: bytes(altered)}
                    )
                    with pytest.raises(EventLogError):
                        copy.copy(page)
        assert copy.head().position == 0
        copy.copy(everything)
        assert copy.head() == primary.head()


def test_gaps_repetitions_and_times_that_go_back_are_refused(
    primary: SqliteLog, tmp_path: Path
) -> None:
    everything = primary.read_stored(0, 100)
    late = msgspec.structs.replace(everything[1], received_at=everything[0].received_at - 1)
    pages: list[list[Stored]] = [
        everything[1:],
        [everything[0], everything[0]],
        [everything[0], everything[2]],
        [everything[1], everything[0]],
        [everything[0], late],
    ]
    with copy_at(tmp_path / "copy.db") as copy:
        for page in pages:
            with pytest.raises(CorruptLog):
                copy.copy(page)
        copy.copy(everything[:2])
        with pytest.raises(CorruptLog):
            copy.copy(everything[:2])


def test_a_payload_may_be_missing_only_with_its_salt(primary: SqliteLog, tmp_path: Path) -> None:
    everything = primary.read_stored(0, 100)
    with copy_at(tmp_path / "copy.db") as copy:
        with pytest.raises(CorruptLog):
            copy.copy([msgspec.structs.replace(everything[0], payload=None)])
        copy.copy([msgspec.structs.replace(everything[0], payload=None, salt=None)])
        copy.copy(everything[1:])
        assert copy.read_stored(0, 1)[0].payload is None


def test_a_copy_erases_what_its_original_erases_later_and_no_more(
    primary: SqliteLog, tmp_path: Path
) -> None:
    first, second, *_ = primary.read()
    with copy_at(tmp_path / "copy.db") as copy:
        copy.copy(primary.read_stored())
        erase(primary, first)
        peer = MemoryLog("peer", 1, FixedClock(START_US))
        peer.append([erased(second)])  # takes effect only by an erasure of the original
        adopt(primary, [verified(stored) for stored in peer.read_stored()])
        copy.copy(primary.read_stored(copy.head().position))
        assert copy.read_stored() == primary.read_stored()
        assert [event.payload for event in copy.read(0, 2)] == [None, second.payload]


def test_idempotency_keys_come_with_their_last_event_and_answer_in_the_copy(
    primary: SqliteLog, tmp_path: Path
) -> None:
    everything = primary.read_stored(0, 100)
    assert primary.keys_of(everything[:6]) == []
    (key,) = primary.keys_of(everything)
    assert (key.actor, key.key, key.first_position, key.last_position) == (
        "agent:alice", "k1", 6, 7,
    )  # fmt: skip
    with copy_at(tmp_path / "copy.db") as copy:
        copy.copy(everything, [key])
        again = copy.append([fact()], idempotency=Idempotency("agent:alice", "k1", b"digest"))
        assert again.replayed
        with pytest.raises(IdempotencyConflict):
            copy.append([fact()], idempotency=Idempotency("agent:alice", "k1", b"other"))


def test_a_copy_can_be_written_to_under_its_own_origin(primary: SqliteLog, tmp_path: Path) -> None:
    with copy_at(tmp_path / "copy.db") as copy:
        copy.copy(primary.read_stored(0, 100))
        (event,) = copy.append([fact()]).events
        assert event.position == primary.head().position + 1
        assert event.header.origin == OTHER
        assert event.header.stream_seq == 1
        assert event.received_hlc > primary.head().received_hlc
