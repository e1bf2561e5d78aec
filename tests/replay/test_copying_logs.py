"""A log moves between SQLite and PostgreSQL and stays the same log, or the copy is refused."""

from pathlib import Path

import psycopg
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import IdempotencyConflict
from engramlog.eventlog.log import Idempotency
from engramlog.replay.copying import CopyDiffers, compare_logs, copy_log
from engramlog.replay.verify import verify
from tests.worlds.postgres_servers import Server
from tests.worlds.samples import ORIGIN, START_US, erase, fact, facts, open_log

KEY = Idempotency("agent:alice", "k", b"digest")
OTHER_KEY = Idempotency("agent:alice", "k2", b"other")


def silent(_done: int, _total: int) -> None:
    """No progress is shown."""


def filled(path: Path) -> SqliteLog:
    """A log with several streams, times, keys and an erased payload."""
    clock = FixedClock(START_US)
    log = open_log(path, clock)
    log.append(facts(3))
    clock.advance(1_000_000)
    first, _ = log.append([fact(scope="team"), fact(scope="public")], idempotency=KEY).events
    log.append(facts(400), idempotency=OTHER_KEY)
    erase(log, first)
    return log


def shared(url: str) -> PostgresLog:
    return PostgresLog.open(
        url, origin=ORIGIN, epoch=1, clock=FixedClock(START_US), durability="server"
    )


def test_there_and_back_every_byte_position_time_and_key_is_the_same(
    tmp_path: Path, postgres_url: str
) -> None:
    with (
        filled(tmp_path / "log.db") as original,
        shared(postgres_url) as there,
        open_log(tmp_path / "back.db") as back,
    ):
        assert copy_log(original, there, silent) == original.head().position
        compare_logs(original, there, silent)
        assert copy_log(there, back, silent) == original.head().position
        compare_logs(there, back, silent)
        everything = original.read_stored(limit=10_000)
        assert there.read_stored(limit=10_000) == back.read_stored(limit=10_000) == everything
        assert there.stream_heads() == back.stream_heads() == original.stream_heads()
        assert verify(there) == verify(back) == verify(original)
        assert there.append([], idempotency=OTHER_KEY).replayed
        with pytest.raises(IdempotencyConflict):
            there.append([fact()], idempotency=KEY)


def test_an_interrupted_copy_continues_and_one_of_another_log_is_refused(
    tmp_path: Path, postgres_url: str
) -> None:
    with filled(tmp_path / "log.db") as original, shared(postgres_url) as there:
        beginning = original.read_stored(limit=4)
        there.copy(beginning, original.keys_of(beginning))
        copy_log(original, there, silent)
        compare_logs(original, there, silent)
    with (
        filled(tmp_path / "other.db") as other,
        shared(postgres_url) as there,
        pytest.raises(CopyDiffers, match="not in the source"),
    ):
        copy_log(other, there, silent)


def test_a_changed_copy_differs_from_its_original(
    tmp_path: Path, postgres_url: str, postgres_server: Server
) -> None:
    with filled(tmp_path / "log.db") as original, shared(postgres_url) as there:
        copy_log(original, there, silent)
        with psycopg.connect(postgres_server.url(), autocommit=True) as db:
            db.execute("ALTER TABLE engramlog.events DISABLE TRIGGER USER")
            db.execute(
                "UPDATE engramlog.events SET received_at = received_at + 1 WHERE position = 3"
            )
            db.execute("ALTER TABLE engramlog.events ENABLE TRIGGER USER")
        with pytest.raises(CopyDiffers, match="position 3 differs"):
            compare_logs(original, there, silent)
