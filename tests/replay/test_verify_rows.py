"""A log's rows, accepted at once or step by step: the same fault, found at the same event."""

from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import ZERO_HASH, decode_header
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.engines.storage_audit import Row, RowFields
from engramlog.eventlog.event import Foreign, Verified
from engramlog.replay.verify_keys import Fault
from engramlog.replay.verify_rows import RowCheck, bare_row
from tests.worlds.samples import ORIGIN, START_US, TEAM, erase, fact, facts

OWN_STREAMS = f"{ORIGIN}/1/"
PEER = "stigmem:node:00000000-0000-4000-8000-000000000001"
HEADER_BYTES, STREAM = 4, 8
"""Columns of a row."""
PREV_HASH = 12
"""A field of a header."""
Rows = list[RowFields]


class StepByStep(RowCheck):
    """Accepts nothing at once."""

    def _accept_sound(self, rows: Iterator[RowFields]) -> RowFields | None:
        return next(rows, None)


@cache
def whole_log() -> Rows:
    """Rows of two own streams and one of a peer, one of them erased."""
    clock = FixedClock(START_US)
    peer, log = MemoryLog(PEER, 1, clock), MemoryLog(ORIGIN, 1, clock)
    peer.append(facts(3))
    for number in range(6):
        clock.advance(1_000)
        log.append([fact(f"value {number}", scope=("company", "team")[number % 2])])
    transaction = log.begin()
    transaction.adopt(
        [
            Verified(Foreign(*astuple(stored)[4:]), event.header, event.payload)
            for stored, event in zip(peer.read_stored(), peer.read(), strict=True)
        ],
        PEER,
    )
    transaction.commit()
    log.append(facts(2))
    erase(log, log.read()[3])
    return [bare_row(stored) for stored in log.read_stored()]


def outcome(check: RowCheck, rows: Rows) -> tuple[object, ...]:
    fault = check.page_fault(rows) or check.withheld()
    ends = [check.stream_seq(row[STREAM]) for row in whole_log()]
    return fault, check.head, check.streams, ends, check.found


def outcomes(rows: Rows) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Those of both ways."""
    at_once, by_step = (
        outcome(check(OWN_STREAMS, None, {(TEAM, 2)}), rows) for check in (RowCheck, StepByStep)
    )
    return at_once, by_step


def replaced(rows: Rows, number: int, column: int, value: object) -> Rows:
    row = list(rows[number])
    row[column] = value
    return [*rows[:number], tuple(row), *rows[number + 1 :]]


def linked_again(rows: Rows, number: int, forged: list[Any], *, repeat: bool) -> Rows:
    """The rows with another header at one of them, and every hash made to agree; ``repeat``: the
    columns that repeat it too."""
    ends: dict[object, bytes] = {}
    linked: Rows = []
    for at, row in enumerate(rows):
        fields = forged if at == number else list(astuple(decode_header(row[HEADER_BYTES])))
        if at != number:
            fields[PREV_HASH] = ends.get(fields[3], ZERO_HASH)
        data = msgspec.msgpack.encode(fields)
        digest = sha256(b"\x00" + data).digest()
        ends[fields[3]] = digest
        repeated = (fields[3], fields[4], fields[1], fields[5]) if repeat else row[8:]
        linked.append((*row[:HEADER_BYTES], data, digest, *row[6:8], *repeated))
    return linked


VALUES = (
    None, 0, -1, 1, 2, 1 << 62, 1.5, "", "fact_erased", "key_issued", f"{ORIGIN}/1/scope/public",
    PEER, b"", bytes(16), bytes(32),
)  # fmt: skip


def with_another_column() -> Iterator[Rows]:
    rows = whole_log()
    for number, row in enumerate(rows):
        for column in range(len(row)):
            for value in (*VALUES, *{other[column] for other in rows}):
                yield replaced(rows, number, column, value)


def with_another_header() -> Iterator[Rows]:
    rows = whole_log()
    for number, row in enumerate(rows):
        fields = list(astuple(decode_header(row[HEADER_BYTES])))
        for at in range(len(fields)):
            for value in VALUES:
                forged = [*fields[:at], value, *fields[at + 1 :]]
                yield linked_again(rows, number, forged, repeat=True)
                yield linked_again(rows, number, forged, repeat=False)


def with_a_header_encoded_another_way() -> Iterator[Rows]:
    rows = whole_log()
    for number, row in enumerate(rows):
        for data in (b"\xdc\x00\x0e" + row[HEADER_BYTES][1:], row[HEADER_BYTES] + b"\xc0"):
            digest = sha256(b"\x00" + data).digest()
            changed = replaced(rows, number, HEADER_BYTES, data)
            yield replaced(changed, number, HEADER_BYTES + 1, digest)


def in_another_order() -> Iterator[Rows]:
    rows = whole_log()
    for number in range(len(rows)):
        yield rows[:number] + rows[number + 1 :]
        yield rows[: number + 1] + rows[number:]
        yield rows[number:] + rows[:number]


@pytest.mark.parametrize(
    "damaged",
    [
        with_another_column,
        with_another_header,
        with_a_header_encoded_another_way,
        in_another_order,
    ],
)
def test_damaged_rows_have_the_same_fault_either_way(
    damaged: Callable[[], Iterator[Rows]],
) -> None:
    faults: set[str] = set()
    for rows in damaged():
        at_once, by_step = outcomes(rows)
        assert at_once == by_step
        if isinstance(at_once[0], Fault):
            faults.add(at_once[0].reason)
    assert faults


def test_a_sound_log_has_no_fault_either_way() -> None:
    at_once, by_step = outcomes(whole_log())
    assert at_once == by_step
    assert at_once[0] is None


def test_only_rows_that_need_a_closer_look_are_not_accepted_at_once() -> None:
    asked: list[int] = []

    class Counting(RowCheck):
        def _reason(self, row: Row) -> str | None:
            asked.append(row.position)
            return super()._reason(row)

    assert Counting(OWN_STREAMS, None, ()).page_fault(whole_log()) is None
    assert asked == [4], "the erased one"
