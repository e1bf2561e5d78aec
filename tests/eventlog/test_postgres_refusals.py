"""A server that ends connections or refuses events: what a writer notices, and when it is over."""

import threading
import time
import traceback
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.postgres import session
from engramlog.eventlog.engines.postgres.listening import Listener
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.engines.postgres.server import ServerState
from engramlog.eventlog.errors import EventLogError, LogBusy, LogClosed, StorageFailed, StorageFull
from engramlog.replay.verify import verify
from tests.worlds.postgres_servers import Server, wait_until
from tests.worlds.samples import ORIGIN, START_US, fact

END_IN_TRANSACTION = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE state = 'idle in transaction'"
)
END_IDLE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle'"


def open_log(url: str) -> PostgresLog:
    clock = FixedClock(START_US)
    return PostgresLog.open(url, origin=ORIGIN, epoch=1, clock=clock, durability="server")


@contextmanager
def set_for_nodes(db: psycopg.Connection[Any], setting: str, value: str) -> Generator[None]:
    """A default of the nodes' role, for a ``with`` block."""
    db.execute(sql.SQL("ALTER ROLE node SET {} = {}").format(sql.Identifier(setting), value))
    try:
        yield
    finally:
        db.execute("ALTER ROLE node RESET ALL")


@contextmanager
def stuck_in_a_pipeline(db: psycopg.Connection[Any], url: str) -> Generator[None]:
    """A node that holds the lock and is silent, for a ``with`` block."""
    holding = "SELECT 1 FROM pg_locks WHERE mode = 'RowShareLock' AND granted"
    with (
        psycopg.connect(url, autocommit=True) as stuck,
        suppress(psycopg.OperationalError),
        stuck.pipeline(),
    ):
        stuck.execute("BEGIN")
        stuck.execute("SELECT FROM engramlog.head FOR UPDATE")
        wait_until(lambda: db.execute(holding).fetchone() is not None, "it has the lock")
        yield


@contextmanager
def written_log(server: Server, url: str) -> Generator[tuple[psycopg.Connection[Any], PostgresLog]]:
    """The server's administrator, and a log with one event."""
    with psycopg.connect(server.url(), autocommit=True) as db, open_log(url) as log:
        log.append([fact()])
        yield db, log


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:secret%zz@h/db", "postgresql://u:secret x@h/db", "Postgresql://u:secret@h/db"],
)
def test_no_fault_of_an_address_repeats_its_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(EventLogError, match="address") as refused:
        Node.open(tmp_path / "data", log=url)
    assert "secret" not in "".join(traceback.format_exception(refused.value))


def test_a_connection_that_was_ended_while_idle_costs_no_write(
    postgres_server: Server, postgres_url: str
) -> None:
    with written_log(postgres_server, postgres_url) as (db, log):
        for position in (2, 3):
            assert db.execute(END_IDLE).fetchall()
            assert log.append([fact()]).events[0].position == position


def test_a_log_that_closes_ends_what_follows_it_without_an_error(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may close just while the server's state is looked at."""
    lost: list[str] = []
    open_log(postgres_url).close()

    def saw(_: ServerState) -> None:
        raise LogClosed("the log is closed")

    before = set(threading.enumerate())
    listener = Listener(postgres_url, saw, lost.append)
    listener.start()
    (following,) = set(threading.enumerate()) - before
    following.join(30)
    assert not following.is_alive()
    assert not lost
    assert not caplog.records


def test_a_node_that_is_stuck_in_a_pipeline_loses_the_lock(
    postgres_server: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's ``idle_in_transaction_session_timeout`` does not count there."""
    monkeypatch.setattr(session, "LOCK_SECONDS_MAX", 0.1)
    with (
        written_log(postgres_server, postgres_url) as (db, log),
        stuck_in_a_pipeline(db, postgres_url),
    ):
        with pytest.raises(LogBusy):
            log.append([fact()])
        with pytest.raises(LogBusy):
            log.append([fact()])
        monkeypatch.setattr(session, "HOLD_SECONDS_MAX", 0)
        with pytest.raises(LogBusy):
            log.append([fact()])
        assert log.append([fact()]).events[0].position == 2


def test_a_node_starts_beside_one_that_is_stuck_in_a_pipeline(
    postgres_server: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it could not start for as long as the other one is stopped."""
    monkeypatch.setattr(session, "LOCK_SECONDS_MAX", 0.1)
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        open_log(postgres_url).close()
        with stuck_in_a_pipeline(db, postgres_url):
            with pytest.raises(LogBusy):
                open_log(postgres_url)
            monkeypatch.setattr(session, "HOLD_SECONDS_MAX", 0)
            open_log(postgres_url).close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("default_transaction_isolation", "repeatable read"), ("statement_timeout", "50ms")],
)
def test_a_writer_that_waited_for_the_lock_writes_at_any_defaults_of_the_role(
    setting: str, value: str, postgres_server: Server, postgres_url: str
) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with (
        psycopg.connect(postgres_server.url(), autocommit=True) as db,
        set_for_nodes(db, setting, value),
        open_log(postgres_url) as one,
        open_log(postgres_url) as two,
        ThreadPoolExecutor() as threads,
    ):
        holding = one.begin()
        holding.append([fact()])
        written = threads.submit(two.append, [fact()])
        wait_until(lambda: db.execute(waiting).fetchone() is not None, "it waits")
        time.sleep(0.1)
        holding.commit()
        assert written.result().events[0].position == 2


def test_idle_readers_stay_connected_at_any_defaults_of_the_role(
    postgres_server: Server, postgres_url: str
) -> None:
    with (
        psycopg.connect(postgres_server.url(), autocommit=True) as db,
        set_for_nodes(db, "idle_session_timeout", "50ms"),
        open_log(postgres_url) as log,
    ):
        log.append([fact()])
        for _ in range(2):
            assert len(log.read()) == 1
            time.sleep(0.2)


def test_a_connection_lost_within_a_round_trip_is_told_once(
    postgres_server: Server, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver tells a second time that it is lost, at the round trip's end."""
    with written_log(postgres_server, postgres_url) as (db, log):
        for _ in range(3):
            transaction = log.begin()
            transaction.append([fact()])
            assert db.execute(END_IN_TRANSACTION).fetchall()
            with pytest.raises(StorageFailed, match="PostgreSQL: "):
                transaction.commit()
            transaction.rollback()
    assert not [record for record in caplog.records if record.name == "psycopg"]


def test_a_refusal_of_events_is_a_fault_until_the_server_takes_some(
    postgres_server: Server, postgres_url: str
) -> None:
    with written_log(postgres_server, postgres_url) as (db, log):
        for table in ("events", "payloads"):
            name = sql.Identifier("engramlog", table)
            db.execute(sql.SQL("REVOKE INSERT ON {} FROM node").format(name))
            with pytest.raises(StorageFailed, match=f"permission denied for table {table}"):
                log.append([fact()])
            for _ in range(2):
                assert "the log takes no writes: PostgreSQL: permission denied" in str(log.fault)
                with pytest.raises(StorageFailed):
                    log.retry()
            db.execute(sql.SQL("GRANT INSERT ON {} TO node").format(name))
            log.retry()
            assert log.fault is None
        assert log.append([fact()]).events[0].position == 2
        assert verify(log).fault is None


def test_a_server_without_room_for_a_long_event_is_full_until_it_has(
    postgres_server: Server, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A short event finds room in a page that is begun, also on a full disk. Writes of both kinds
    are no reason to tell it twice."""
    caplog.set_level("INFO")
    full = """
    CREATE FUNCTION engramlog.full() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF length(NEW.payload) > 10000 THEN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
      END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER is_full BEFORE INSERT ON engramlog.payloads
      FOR EACH ROW EXECUTE FUNCTION engramlog.full()"""
    with written_log(postgres_server, postgres_url) as (db, log):
        db.execute(full)
        for _ in range(3):
            with pytest.raises(StorageFull):
                log.append([fact("x" * 20_000)])
            with pytest.raises(StorageFull):
                log.retry()
            assert "no space left" in str(log.fault)
            log.append([fact()])
            assert log.fault is None
        db.execute("DROP TRIGGER is_full ON engramlog.payloads")
        log.append([fact("x" * 20_000)])
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_server_that_turns_read_only_is_a_fault_until_it_takes_writes(
    postgres_server: Server, postgres_url: str
) -> None:
    def turn(setting: str) -> None:
        db.execute(sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(setting))
        db.execute("SELECT pg_reload_conf()")
        wait_until(lambda: shown() == setting, f"the server's default is {setting}")

    def shown() -> str:
        with psycopg.connect(postgres_server.url()) as new:
            return new.execute("SHOW default_transaction_read_only").fetchall()[0][0]

    with written_log(postgres_server, postgres_url) as (db, log):
        turn("on")
        try:
            wait_until(lambda: log.fault is not None, "the node sees that")
            assert log.fault == "the server is read-only: the log takes no writes"
            for _ in range(2):
                with pytest.raises(StorageFailed, match="read-only"):
                    log.append([fact()])
        finally:
            turn("off")
        wait_until(lambda: log.fault is None, "the node sees that it is over")
        assert log.append([fact()]).events[0].position == 2
