"""Which moment a text means, and which texts mean none."""

from collections.abc import Iterator

import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.event import NODE_STREAM, Draft
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import SourceTrustSet
from engramlog.projections.moment import Moment
from engramlog.replay.moment import MomentError, resolve

SECOND = 1_000_000
NOW = 100 * SECOND


@pytest.fixture(scope="module")
def log() -> Iterator[MemoryLog]:
    """Five events, received at 10, 20, 20, 30 and 90 seconds."""
    log = MemoryLog("stigmem:node:test", 1, FixedClock(NOW))
    identifiers = IdentifierSource(log.origin)
    for second in (10, 20, 20, 30, 90):
        draft = Draft(
            SourceTrustSet(source="agent:a", trust=1.0),
            NODE_STREAM,
            identifiers.next(second * SECOND),
            "agent:a",
        )
        log.append([draft], received_at=second * SECOND)
    yield log
    log.close()


@pytest.mark.parametrize(
    ("text", "position", "instant_us"),
    [
        ("position:0", 0, 0),
        ("position:1", 1, 10 * SECOND),
        ("position:3", 3, 20 * SECOND),
        ("position:005", 5, 90 * SECOND),
        ("1970-01-01T00:00:09.999999Z", 0, 10 * SECOND - 1),
        ("1970-01-01T00:00:10Z", 1, 10 * SECOND),
        ("1970-01-01T02:00:20+02:00", 3, 20 * SECOND),
        ("1970-01-01T00:01:40Z", 5, NOW),
        ("1969-12-31T23:59:59Z", 0, -SECOND),
        ("0000000020000.000", 3, 20 * SECOND + 999),
        ("20000.0", 3, 20 * SECOND + 999),
        ("19999.999", 1, 19_999_999),
        ("19999.1000", 3, 20 * SECOND + 999),  # a counter past 999 moves the clock on
    ],
)
def test_a_moment_is_a_position_and_an_instant(
    log: MemoryLog, text: str, position: int, instant_us: int
) -> None:
    assert resolve(text, log, 5, NOW) == Moment(position, instant_us)


def test_unpublished_events_are_not_seen(log: MemoryLog) -> None:
    assert resolve("1970-01-01T00:01:40Z", log, 2, NOW) == Moment(2, NOW)
    with pytest.raises(MomentError) as refused:
        resolve("position:3", log, 2, NOW)
    assert refused.value.code == "as_of_future"


def test_a_future_moment_is_refused_because_its_answer_would_change(
    log: MemoryLog,
) -> None:
    assert resolve("1970-01-01T00:01:40Z", log, 5, NOW).instant_us == NOW
    for text in ("1970-01-01T00:01:40.000001Z", "105000.0", "position:6", "9999-01-01T00:00:00Z"):
        with pytest.raises(MomentError) as refused:
            resolve(text, log, 5, NOW)
        assert refused.value.code == "as_of_future"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "5",
        "position:",
        "position:-1",
        "position:1.5",
        "position: 1",
        "position:1\n",
        "position:\u0661",
        "POSITION:1",
        "position:" + "9" * 19,
        "1.2.3",
        "1.",
        "-1.0",
        "20000.0\n",
        "2026-01-31T12:00:00",
        "0001-01-01T00:00:00+23:59",
    ],
)
def test_other_texts_mean_no_moment(log: MemoryLog, text: str) -> None:
    with pytest.raises(MomentError) as refused:
        resolve(text, log, 5, NOW)
    assert refused.value.code == "as_of_invalid_timestamp"


@pytest.mark.parametrize(
    ("text", "floor_s", "kept"),
    [
        ("position:3", 25, True),  # known at 25 s: the next event came at 30 s
        ("position:2", 25, False),
        ("position:0", 5, True),
        ("position:0", 10, False),
        ("position:5", 99, True),  # the head, although the last event came at 90 s
        ("position:4", 90, False),
        ("1970-01-01T00:00:25Z", 25, True),
        ("1970-01-01T00:00:24.999999Z", 25, False),
        ("25000.000", 25, True),
        ("24999.999", 25, False),
    ],
)
def test_nothing_before_the_floor_is_answered(
    log: MemoryLog, text: str, floor_s: int, kept: bool
) -> None:
    if kept:
        assert resolve(text, log, 5, NOW, floor_s * SECOND) == resolve(text, log, 5, NOW)
        return
    with pytest.raises(MomentError) as refused:
        resolve(text, log, 5, NOW, floor_s * SECOND)
    assert refused.value.code == "as_of_before_retention_floor"
