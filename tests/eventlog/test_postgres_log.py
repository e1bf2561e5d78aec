"""The log in PostgreSQL keeps the contract, and the promises for several writers."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import errors

from engramlog.eventlog.clock import Clock, FixedClock, SystemClock
from engramlog.eventlog.engines.postgres import schema, session, statements, writing
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.engines.postgres.schema import prepare
from engramlog.eventlog.engines.postgres.server import Durability
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import (
    AppendError,
    CorruptLog,
    DataDirectoryError,
    ExpectationFailed,
    HistoryChanged,
    LogBusy,
    NotDurable,
    StorageError,
    StorageFull,
)
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import EventLog, Expect, Idempotency
from engramlog.replay.verify import verify
from tests.eventlog.contract import LogContract
from tests.worlds.postgres_servers import Server, new_log
from tests.worlds.samples import COMPANY, ORIGIN, START_US, erase, fact, facts, seeded_salts


def open_log(
    url: str,
    *,
    clock: Clock | None = None,
    origin: str = ORIGIN,
    epoch: int = 1,
    durability: Durability = "server",
    entropy: Callable[[int], bytes] = os.urandom,
) -> PostgresLog:
    return PostgresLog.open(
        url,
        origin=origin,
        epoch=epoch,
        clock=clock or FixedClock(START_US),
        durability=durability,
        entropy=entropy,
    )


class TestPostgresLog(LogContract):
    @pytest.fixture
    def log(self, clock: FixedClock, postgres_url: str) -> Iterator[EventLog]:
        with open_log(postgres_url, clock=clock) as log:
            yield log


def test_the_same_drafts_become_the_same_bytes_as_in_sqlite(
    postgres_url: str, tmp_path: Path
) -> None:
    batches = [facts(3), [fact(scope="team")], facts(writing.COPY_EVENTS_MIN, scope="public")]
    stored: list[list[Stored]] = []
    for log in (
        SqliteLog.open(
            tmp_path / "log.db",
            origin=ORIGIN,
            epoch=1,
            clock=FixedClock(START_US),
            entropy=seeded_salts(),
        ),
        open_log(postgres_url, entropy=seeded_salts()),
    ):
        for number, batch in enumerate(batches):
            log.append(batch, idempotency=Idempotency("agent:alice", f"k{number}", b"digest"))
        stored.append(log.read_stored(limit=10_000))
        log.close()
    assert stored[0] == stored[1]


# -- several writers


def test_writers_on_many_connections_leave_no_gap_and_no_event_behind_a_reader(
    postgres_url: str,
) -> None:
    """The fault of a plain ``serial``: numbers assigned in one order and committed in another."""
    writers, batches, size = 4, 12, 3
    logs = [open_log(postgres_url, clock=SystemClock()) for _ in range(writers)]
    done = threading.Event()
    seen: list[int] = []

    def write(log: PostgresLog) -> None:
        for _ in range(batches):
            log.append(facts(size))

    def follow() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as db:
            while True:
                last = done.is_set()
                rows = db.execute(
                    "SELECT position FROM engramlog.events WHERE position > %s ORDER BY position",
                    (seen[-1] if seen else 0,),
                ).fetchall()
                seen.extend(position for (position,) in rows)
                if last:
                    return

    reader = threading.Thread(target=follow)
    threads = [threading.Thread(target=write, args=(log,)) for log in logs]
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    assert seen == list(range(1, writers * batches * size + 1))
    assert verify(logs[0]).fault is None
    for log in logs:
        log.close()


def test_a_log_reads_other_writers_events_before_it_writes(postgres_url: str) -> None:
    with open_log(postgres_url) as one, open_log(postgres_url) as two:
        key = Idempotency("agent:alice", "k", b"digest")
        first = one.append([fact(), fact(scope="team")], idempotency=key)
        assert two.append([fact()], idempotency=key).events == first.events
        with pytest.raises(ExpectationFailed):
            two.append([fact()], expect=Expect(stream=COMPANY, stream_seq=0))
        (event,) = two.append([fact()], expect=Expect(stream=COMPANY, stream_seq=1)).events
        assert (event.position, event.header.prev_hash) == (3, first.events[0].hash)
        assert one.append([fact()]).events[0].header.prev_hash == event.hash


def test_an_event_id_that_another_log_recorded_is_not_recorded_again(postgres_url: str) -> None:
    with open_log(postgres_url) as one, open_log(postgres_url) as two:
        draft = fact()
        one.append([draft])
        with pytest.raises(AppendError, match="already recorded"):
            two.append([draft])


def test_another_logs_commit_wakes_a_subscription(postgres_url: str) -> None:
    with open_log(postgres_url) as one, open_log(postgres_url) as two:
        subscription = two.subscribe()
        timer = threading.Timer(0.1, one.append, args=([fact()],))
        timer.start()
        assert [event.position for event in subscription.take(10, 30)] == [1]
        assert two.head().position == 1
        timer.join()


def test_a_lock_held_too_long_by_another_is_an_error_without_a_write(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOCK_SECONDS_MAX", 0.1)
    with open_log(postgres_url) as one, open_log(postgres_url) as two:
        holding = one.begin()
        with pytest.raises(LogBusy):
            two.append([fact()])
        holding.append([fact()])
        holding.commit()
        assert two.append([fact()]).events[0].position == 2


@pytest.mark.parametrize("many", [1, writing.COPY_EVENTS_MIN])
def test_a_node_that_lost_the_lock_writes_nothing_and_continues_after(
    postgres_server: Server, postgres_url: str, many: int
) -> None:
    with open_log(postgres_url) as one, open_log(postgres_url) as two:
        one.append([fact()])
        transaction = one.begin()
        transaction.append([*facts(many, scope="public")])
        terminate(postgres_server, "idle in transaction")
        two.append([fact()])
        with pytest.raises(StorageError):
            transaction.commit()
        assert [event.position for event in two.read()] == [1, 2]
        one.append([fact(scope="public")])
        assert verify(one).events == 3
        assert verify(one).fault is None


def test_a_key_that_another_node_writes_during_verification_is_no_fault(postgres_url: str) -> None:
    with open_log(postgres_url) as one, open_log(postgres_url) as two:
        one.append([fact()], idempotency=Idempotency("agent:alice", "before", b"digest"))

        def written(position: int, total: int) -> None:
            two.append([fact()], idempotency=Idempotency("agent:alice", "meanwhile", b"digest"))

        assert verify(one, progress=written).fault is None
        assert verify(one).fault is None


def test_a_stream_whose_first_write_failed_is_entered_by_the_next(
    postgres_url: str, postgres_server: Server
) -> None:
    with open_log(postgres_url) as log:
        log.append([fact()])
        draft = fact(scope="public")
        transaction = log.begin()
        transaction.append([draft])
        terminate(postgres_server, "idle in transaction")
        with pytest.raises(StorageError):
            transaction.commit()
        log.append([draft])
        assert verify(log).fault is None


def terminate(server: Server, state: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as db:
        found = db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = %s", (state,)
        ).fetchall()
    assert found


def test_a_log_continues_after_any_refused_write(
    postgres_server: Server, postgres_url: str
) -> None:
    with (
        psycopg.connect(postgres_server.url(), autocommit=True) as db,
        open_log(postgres_url) as log,
    ):
        db.execute(
            "CREATE FUNCTION engramlog.full() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;"
            "CREATE TRIGGER no_space BEFORE INSERT ON engramlog.events"
            " EXECUTE FUNCTION engramlog.full();"
        )
        for number in range(8):  # the driver prepares frequent statements
            db.execute("ALTER TABLE engramlog.events DISABLE TRIGGER no_space")
            assert log.append([fact()]).events[0].position == number + 1
            db.execute("ALTER TABLE engramlog.events ENABLE TRIGGER no_space")
            with pytest.raises(StorageFull):
                log.append([fact()])


def test_a_history_that_was_replaced_is_noticed_and_nothing_written(
    postgres_server: Server, postgres_url: str
) -> None:
    with open_log(postgres_url) as log:
        log.append(facts(3))
        replace_log(postgres_server, 2)
        with pytest.raises(HistoryChanged, match="ends at 2"):
            log.append([fact()])
        assert log.fault is not None
        with open_log(postgres_url) as other:
            other.append(facts(2))
        with pytest.raises(HistoryChanged):
            log.append([fact()])
        with open_log(postgres_url) as restarted:
            assert restarted.append([fact()]).events[0].position == 5


def test_another_event_at_the_same_position_is_another_history(
    postgres_server: Server, postgres_url: str
) -> None:
    with open_log(postgres_url) as log:
        log.append(facts(3))
        replace_log(postgres_server, 3)
        with pytest.raises(HistoryChanged, match="not the one"):
            log.append([fact()])


def replace_log(server: Server, events: int) -> None:
    """Another history in the same place, as after a failover to a lagging server."""
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute("DROP SCHEMA engramlog CASCADE")
    prepare(server.url(), "node")
    with open_log(server.url("node")) as other:
        other.append(facts(events))


def test_a_log_is_one_origins_and_never_goes_back_to_an_earlier_epoch(postgres_url: str) -> None:
    open_log(postgres_url).close()
    with pytest.raises(DataDirectoryError, match="share its identity"):
        open_log(postgres_url, origin="stigmem:node:00000000-0000-4000-8000-000000000001")
    with open_log(postgres_url) as old, open_log(postgres_url, epoch=2) as new:
        new.append([fact()])
        with pytest.raises(HistoryChanged, match="epoch 2"):
            old.append([fact()])
    with pytest.raises(DataDirectoryError, match="epoch 2"):
        open_log(postgres_url)


# -- durability settings


def test_a_missing_quorum_is_reported(postgres_url: str) -> None:
    with open_log(postgres_url, durability="quorum") as log:
        with pytest.raises(NotDurable, match="synchronous_standby_names is empty"):
            log.append([fact()])
        assert log.fault is not None
        assert log.read() == []


def test_a_server_that_does_not_wait_for_its_disk_is_refused(
    postgres_server: Server, postgres_url: str
) -> None:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("ALTER ROLE node SET synchronous_commit = off")
        try:
            with (
                open_log(postgres_url) as log,
                pytest.raises(NotDurable, match="synchronous_commit is off"),
            ):
                log.append([fact()])
        finally:
            db.execute("ALTER ROLE node RESET synchronous_commit")


# -- guards of the database

FORBIDDEN: list[LiteralString] = [
    "UPDATE engramlog.events SET kind = 'x'",
    "DELETE FROM engramlog.events",
    "DELETE FROM engramlog.payloads",
    "UPDATE engramlog.payloads SET payload = 'x'",
    "UPDATE engramlog.streams SET stream = 'x'",
    "DELETE FROM engramlog.streams",
    "UPDATE engramlog.idempotency SET digest = 'x'",
    "DELETE FROM engramlog.idempotency",
    "UPDATE engramlog.erased SET position = 9",
    "DELETE FROM engramlog.erased",
    "DELETE FROM engramlog.head",
    "TRUNCATE engramlog.events",
    "TRUNCATE engramlog.payloads",
    "TRUNCATE engramlog.payloads_0",
    "DELETE FROM engramlog.payloads_0",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_neither_a_node_nor_the_owner_may_change_events(
    postgres_server: Server, postgres_url: str, statement: LiteralString
) -> None:
    with open_log(postgres_url) as log:
        first, _ = log.append(
            [fact(), fact()], idempotency=Idempotency("agent:alice", "k", b"digest")
        ).events
        erase(log, first)
        before = log.read_stored()
        with (
            psycopg.connect(postgres_url, autocommit=True) as db,
            pytest.raises(errors.InsufficientPrivilege),
        ):
            db.execute(statement)
        with (
            psycopg.connect(postgres_server.url(), autocommit=True) as db,
            pytest.raises(psycopg.DatabaseError) as refused,
        ):
            db.execute(statement)
        assert refused.value.sqlstate in {"EGA01", "EGE01"}
        assert log.read_stored() == before


@pytest.mark.parametrize(
    "move",
    [
        "position = position - 1",
        "position = position + 1",
        "hash = 'x'",
        "origin = 'another'",
        "epoch = 0",
        "received_at = 0",
    ],
)
def test_the_head_can_only_follow_the_events(postgres_url: str, move: LiteralString) -> None:
    with open_log(postgres_url) as log:
        log.append(facts(2))
        with psycopg.connect(postgres_url, autocommit=True) as db:
            with pytest.raises(psycopg.DatabaseError) as refused:
                db.execute(f"UPDATE engramlog.head SET {move}")
            assert refused.value.sqlstate == "EGA01"


def test_the_erasing_function_deletes_only_named_payloads(postgres_url: str) -> None:
    with open_log(postgres_url) as log:
        (event,) = log.append([fact()]).events
        with psycopg.connect(postgres_url, autocommit=True) as db:
            with pytest.raises(psycopg.DatabaseError) as refused:
                db.execute("SELECT engramlog.erase(%s, '{}', '{}')", ([event.event_id],))
            assert refused.value.sqlstate == "EGE01"
            with pytest.raises(psycopg.DatabaseError) as refused:
                db.execute("INSERT INTO engramlog.erased VALUES (%s, 1)", (event.event_id,))
            assert refused.value.sqlstate == "EGE01"


def test_scrubbing_leaves_no_erased_bytes_in_the_tables_files(
    postgres_server: Server, postgres_url: str
) -> None:
    secret = "a sentence that no search may find again"
    with open_log(postgres_url) as log:
        first, _ = log.append([fact(secret), fact()]).events
        erase(log, first)
        log.scrub()
        with psycopg.connect(postgres_server.url(), autocommit=True) as db:
            db.execute("CHECKPOINT")
            row = db.execute("SELECT pg_relation_filepath('engramlog.payloads_0')").fetchone()
        assert row is not None
        assert secret.encode() not in (postgres_server.data / row[0]).read_bytes()


def test_payloads_lie_in_parts_and_only_those_that_lost_some_are_written_anew(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = schema.GUARDS.replace(str(schema.PART_POSITIONS), "50")
    monkeypatch.setattr(schema, "GUARDS", small)
    paths = (
        "SELECT relname, pg_relation_filenode(inhrelid) FROM pg_inherits"
        " JOIN pg_class ON pg_class.oid = inhrelid"
        " WHERE inhparent = 'engramlog.payloads'::regclass"
    )
    with new_log(postgres_server) as url, open_log(url) as log, open_log(url) as other:
        log.append(facts(40))
        events = other.append(facts(40)).events
        log.append(facts(40))
        with psycopg.connect(postgres_server.url(), autocommit=True) as db:
            before = dict(db.execute(paths))
            assert sorted(before) == ["payloads_0", "payloads_1", "payloads_2"]
            erase(log, events[30])
            log.scrub()
            after = dict(db.execute(paths))
        assert {name for name in before if before[name] != after[name]} == {"payloads_1"}
        assert verify(log).fault is None
        with (
            psycopg.connect(url, autocommit=True) as db,
            pytest.raises(psycopg.DatabaseError, match="so far ahead"),
        ):
            db.execute("SELECT engramlog.make_room(1000)")


@pytest.mark.parametrize(
    "statement", [statements.READ_ALL, statements.READ_KNOWN, statements.READ_ROWS]
)
def test_a_page_of_a_long_log_is_read_from_where_it_begins(
    postgres_server: Server, postgres_url: str, statement: str
) -> None:
    with open_log(postgres_url) as log:
        log.append([fact()])
    bindings = {"after": 7, "limit": 3, "kinds": ["fact_erased"], "others": ["%/scope/team"]}
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("SET enable_nestloop = off")
        plan = db.execute(b"EXPLAIN " + statement.encode(), bindings).fetchall()
    bounds = [line for (line,) in plan if '"position" > ' in line]
    assert len(bounds) >= 2, plan


def test_verify_names_a_trigger_that_was_switched_off_and_a_byte_that_was_changed(
    postgres_server: Server, postgres_url: str
) -> None:
    with open_log(postgres_url) as log:
        log.append(facts(3))
        with psycopg.connect(postgres_server.url(), autocommit=True) as db:
            db.execute("ALTER TABLE engramlog.payloads DISABLE TRIGGER USER")
            found = verify(log).fault
            assert found is not None
            assert "payloads_append_only of payloads is missing or switched off" in found.reason
            db.execute("UPDATE engramlog.payloads SET payload = '{}' WHERE position = 2")
            db.execute("ALTER TABLE engramlog.payloads ENABLE TRIGGER USER")
        found = verify(log).fault
        assert found is not None
        assert found.position == 2
    with pytest.raises(CorruptLog):
        open_log(postgres_url)


def test_a_database_without_a_log_explains_how_to_make_one(postgres_server: Server) -> None:
    with pytest.raises(DataDirectoryError, match="log prepare"):
        open_log(postgres_server.url())


def test_text_that_postgresql_cannot_hold_is_refused_and_the_log_continues(
    postgres_url: str,
) -> None:
    with open_log(postgres_url) as log:
        draft = fact(actor="agent:\x00", text="a\x00b")
        log.append([draft], idempotency=Idempotency("agent:\x00", "k\x00", b"digest"))
        assert log.read()[0].payload == draft.payload
        odd = fact()
        with pytest.raises(AppendError):
            log.append([type(odd)(odd.payload, "garden/\x00", odd.event_id, odd.actor)])
        log.append([fact()])
        assert verify(log).events == 2
