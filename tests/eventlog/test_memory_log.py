"""The log in memory keeps the contract, also where it continues another log."""

import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines import appending
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.errors import AppendError
from engramlog.eventlog.log import EventLog, Head, StreamHead
from tests.eventlog.contract import LogContract
from tests.worlds.samples import COMPANY, ORIGIN, START_US, TEAM, fact


class TestMemoryLog(LogContract):
    @pytest.fixture
    def log(self, clock: FixedClock) -> EventLog:
        return MemoryLog(ORIGIN, 1, clock)


def test_a_fault_that_comes_and_goes_is_told_again_once_it_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    log = MemoryLog(ORIGIN, 1, FixedClock(START_US))
    for reason in ("full", None, "full", None, "gone", None, "gone"):
        log.fault = reason
    once = ["full", "the log takes writes again", "gone", "the log takes writes again"]
    assert [record.message for record in caplog.records] == once
    monkeypatch.setattr(appending, "SAME_FAULT_SECONDS", 0)
    for reason in ("gone", "gone", None):
        log.fault = reason
    assert [record.message for record in caplog.records] == [*once, *once[2:]]


def test_a_log_over_another_is_its_beginning_and_what_follows() -> None:
    clock = FixedClock(START_US)
    base = MemoryLog(ORIGIN, 1, clock)
    for instant, scope in enumerate(("company", "team", "company", "team", "company"), 1):
        base.append([fact(scope=scope)], received_at=instant * 1000)
    *begun, end, hidden, last = base.read()
    streams = {
        event.header.stream: StreamHead(event.header.stream, event.header.stream_seq, event.hash)
        for event in (*begun, end)
    }
    log = MemoryLog.over(base, Head(3, end.received_at, end.received_hlc), streams, clock)
    log.append([fact(scope="team")], received_at=6000)
    log.append([fact(scope="company")], received_at=7000)
    own = log.read(3)
    assert [event.header.stream_seq for event in own] == [2, 3]
    assert own[0].header.prev_hash == begun[1].hash
    whole = [*begun, end, *own]
    for after in range(6):
        for limit in range(1, 7):
            wanted = whole[after : after + limit]
            assert log.read(after, limit) == wanted
            assert [each.hash for each in log.read_stored(after, limit)] == [
                each.hash for each in wanted
            ]
    for stream in (COMPANY, TEAM):
        of_stream = [event for event in whole if event.header.stream == stream]
        assert log.read(0, 9, (stream,)) == of_stream
        for after_seq in range(len(of_stream) + 1):
            found = [each.hash for each in log.read_stream(stream, after_seq)]
            assert found == [each.hash for each in of_stream[after_seq:]]
        assert log.stream_heads()[stream].hash == of_stream[-1].hash
    instants = [log.position_at(instant) for instant in (999, 1000, 3500, 5000, 6000, 9000)]
    assert instants == [0, 1, 3, 3, 4, 5]
    assert [log.received_at(position) for position in range(6)] == [0, 1000, 2000, 3000, 6000, 7000]
    asked = [event.event_id for event in (begun[0], hidden, own[1])]
    assert log.positions_of(asked) == {asked[0]: 1, asked[2]: 5}
    for known in (begun[0], own[0]):
        with pytest.raises(AppendError, match="already recorded"):
            log.append([msgspec.structs.replace(fact(), event_id=known.event_id)])
    assert base.read() == [*begun, end, hidden, last]
