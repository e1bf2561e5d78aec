"""Pages of a log, and following them: unfitting pages are refused, failures retried."""

import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import CorruptLog, EventLogError
from engramlog.eventlog.kinds import SCHEMA_VERSIONS
from engramlog.replay.replication.follower import (
    WAIT_SECONDS,
    PrimaryFollower,
    PrimaryUnreachable,
    catch_up,
)
from engramlog.replay.replication.page import (
    CopyPage,
    Diverged,
    ReplicationError,
    decode_page,
    encode_page,
    read_page,
)
from tests.worlds.samples import ORIGIN, START_US, fact, facts, open_log
from tests.worlds.waiting import until

OTHER = "stigmem:node:00000000-0000-4000-8000-000000000001"


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[SqliteLog]:
    with open_log(tmp_path / "primary.db") as log:
        log.append(facts(10))
        yield log


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[SqliteLog]:
    clock = FixedClock(START_US)
    with SqliteLog.open(tmp_path / "copy.db", origin=OTHER, epoch=1, clock=clock) as log:
        yield log


def page_of(log: SqliteLog, after: int = 0, after_hash: bytes = b"", limit: int = 4) -> CopyPage:
    return read_page(
        log, after=after, after_hash=after_hash, limit=limit, node_id=ORIGIN, public_key="k",
        now_us=START_US,
    )  # fmt: skip


class Source:
    """A primary in the same process, which fails as often as a test sets."""

    def __init__(self, log: SqliteLog, failures: int = 0, node_id: str = ORIGIN) -> None:
        self.log, self.failures, self.node_id = log, failures, node_id
        self.closed = threading.Event()

    def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
        if self.failures:
            self.failures -= 1
            raise PrimaryUnreachable("not now")
        if after >= self.log.head().position:
            self.closed.wait(min(wait_seconds, 0.01))
        page = page_of(self.log, after, after_hash, min(limit, 4))
        return msgspec.structs.replace(page, node_id=self.node_id)

    def close(self) -> None:
        self.closed.set()


def follower(source: Source, copy: SqliteLog) -> PrimaryFollower:
    return PrimaryFollower(source, copy, copy.copy, ORIGIN, lambda: START_US)


def test_a_page_survives_its_way(primary: SqliteLog) -> None:
    page = page_of(primary)
    assert decode_page(encode_page(page)) == page
    assert page.stored() == primary.read_stored(0, 4)
    assert page.head == 10


def test_a_page_of_large_events_ends_soon_after_its_bytes(tmp_path: Path) -> None:
    position, digest, counts = 0, b"", list[int]()
    with open_log(tmp_path / "large.db") as log:
        log.append([fact(f"{number}" * 900_000) for number in range(10, 40)])
        while rows := page_of(log, position, digest, limit=10_000).events:
            counts.append(len(rows))
            position, digest = rows[-1][0], rows[-1][5]
    assert counts == [10, 10, 10]  # of 1.8 MB each, so one step


def test_a_page_that_was_cut_or_altered_is_refused(primary: SqliteLog, copy: SqliteLog) -> None:
    data = encode_page(page_of(primary))
    for end in range(len(data)):
        with pytest.raises(ReplicationError):
            decode_page(data[:end])
    plain = zlib.decompress(data)
    seen = 0
    for place in range(len(plain)):
        altered = bytearray(plain)
        altered[place] ^= 0x01
        try:
            page = decode_page(zlib.compress(bytes(altered)))
            copy.copy(page.stored())
        except (EventLogError, OverflowError):
            seen += 1
            continue
        # The part outside the hashes: the page's node, and when and through which peer events came.
        told = [(each.header, each.hash, each.payload) for each in copy.read_stored(0, 100)]
        real = [(each.header, each.hash, each.payload) for each in primary.read_stored(0, 4)]
        assert told == real
        break
    assert seen > 0


def test_following_resumes_and_reports_its_lag(primary: SqliteLog, copy: SqliteLog) -> None:
    first = follower(Source(primary), copy)
    assert first.step(0) is False
    assert (first.status.lag, first.status.behind_us, copy.head().position) == (6, None, 4)
    second = follower(Source(primary), copy)
    shown: list[tuple[int, int]] = []
    catch_up(second, lambda done, total: shown.append((done, total)))
    assert shown == [(8, 10)]
    assert copy.read_stored(0, 100) == primary.read_stored(0, 100)
    assert (second.status.lag, second.status.behind_us) == (0, 0)


def test_a_primary_that_does_not_answer_is_asked_again(primary: SqliteLog, copy: SqliteLog) -> None:
    following = follower(Source(primary, failures=2), copy)
    following.start()
    deadline = threading.Event()
    for _ in range(500):
        if copy.head().position == 10:
            break
        deadline.wait(0.02)
    assert copy.head().position == 10
    assert following.status.fault is None
    following.stop()


def test_the_first_question_does_not_wait_so_the_status_is_known_at_once(
    primary: SqliteLog, copy: SqliteLog
) -> None:
    waits: list[float] = []

    class Asked(Source):
        def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
            waits.append(wait_seconds)
            return super().fetch(after, after_hash, limit, wait_seconds)

    source = Asked(primary, failures=1)
    following = follower(source, copy)
    following.start()
    until(lambda: following.status.behind_us == 0)
    following.stop()
    assert waits[:3] == [0.0, 0.0, WAIT_SECONDS], "also after an outage"


def test_another_node_or_another_history_ends_the_following(
    primary: SqliteLog, copy: SqliteLog, tmp_path: Path
) -> None:
    with pytest.raises(ReplicationError, match="replica of"):
        follower(Source(primary, node_id=OTHER), copy).step(0)
    assert copy.head().position == 0
    catch_up(follower(Source(primary), copy), lambda *_: None)
    with open_log(tmp_path / "different.db") as different:
        different.append(facts(12))
        with pytest.raises(Diverged, match="another event"):
            follower(Source(different), copy).step(0)
    with open_log(tmp_path / "shorter.db") as shorter:
        shorter.append(facts(2))
        following = follower(Source(shorter), copy)
        with pytest.raises(Diverged, match="ends at position 2"):
            following.step(0)
        following.start()
        for _ in range(500):
            if following.status.fault is not None:
                break
            threading.Event().wait(0.01)
        assert "ends at position 2" in str(following.status.fault)
        following.stop()


def test_a_primary_with_unfitting_pages_is_not_followed_any_more(
    primary: SqliteLog, copy: SqliteLog
) -> None:
    class Liar(Source):
        def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
            page = super().fetch(after, after_hash, limit, wait_seconds)
            return msgspec.structs.replace(page, events=page.events[1:])

    with pytest.raises(CorruptLog):
        follower(Liar(primary), copy).step(0)
    assert copy.head().position == 0


def test_an_event_of_a_later_release_is_followed_after_the_upgrade(
    primary: SqliteLog, copy: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that ignored it would let in whom the primary no longer does."""
    catch_up(follower(Source(primary), copy), lambda *_: None)
    primary.append(facts(1))
    with monkeypatch.context() as earlier:
        earlier.setitem(SCHEMA_VERSIONS, "fact_asserted", 3)
        with pytest.raises(ReplicationError, match="'fact_asserted' version 4 is of a later"):
            follower(Source(primary), copy).step(0)
        assert copy.head().position == 10
    catch_up(follower(Source(primary), copy), lambda *_: None)
    assert copy.head().position == 11
