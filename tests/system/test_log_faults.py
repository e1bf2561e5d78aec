"""A quorum of real servers under faults: no acknowledged event is lost, doubled or out of order."""

import os
import threading
from collections.abc import Iterator

import psycopg
import pytest

from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.postgres import session
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.errors import OutcomeUnknown, StorageError
from engramlog.eventlog.log import Idempotency
from engramlog.replay.verify import verify
from tests.worlds.log_faults.cluster import Cluster
from tests.worlds.log_faults.schedule import Schedule
from tests.worlds.postgres_servers import Server, Servers, new_log, wait_until
from tests.worlds.samples import ORIGIN, fact, facts

SEED = 1
"""The campaign runs many seeds."""
KEY = Idempotency("agent:alice", "k", b"digest")


@pytest.fixture(scope="module")
def cluster(postgres_binaries: None) -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def log(cluster: Cluster) -> Iterator[PostgresLog]:
    """A log that requires a quorum, on the server that ends up as primary."""
    with (
        new_log(cluster.primary, lambda: cluster.primary),
        PostgresLog.open(cluster.nodes_url(), origin=ORIGIN, epoch=1, clock=SystemClock()) as log,
    ):
        yield log


def test_faults_lose_double_and_reorder_nothing(cluster: Cluster) -> None:
    schedule = Schedule(cluster, SEED)
    verdict = schedule.run()
    assert verdict.faults == [], schedule.drawn
    assert verdict.acknowledged >= 6


def test_an_acknowledged_write_survives_its_primary_and_the_log_continues(
    cluster: Cluster, log: PostgresLog
) -> None:
    before = log.append(facts(3)).events
    old = cluster.primary
    old.kill()
    cluster.fail_over(old)
    again: list[int] = []

    def written() -> bool:
        try:
            again.append(log.append([fact()]).events[0].position)
        except StorageError:
            return False
        return True

    # The new primary acknowledges once a standby follows it.
    wait_until(written, "the log takes writes again")
    cluster.rejoin(old)
    cluster.heal()
    assert log.read()[:3] == before
    assert again[-1] == 4
    assert verify(log).fault is None
    # Measured every second over a connection that must first return.
    wait_until(lambda: log.figures.standby_lag_bytes is not None, "the lag is known again")


def test_a_cancelled_wait_for_the_standbys_is_no_acknowledgement(
    cluster: Cluster, log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "COMMIT_SECONDS_MAX", 20.0)
    log.append([fact()])
    for standby in cluster.standbys:
        standby.pause()
    refused: list[BaseException] = []

    def write() -> None:
        try:
            log.append([fact("kept")], idempotency=KEY)
        except StorageError as fault:
            refused.append(fault)

    thread = threading.Thread(target=write)
    thread.start()
    with psycopg.connect(cluster.primary.url(), autocommit=True) as db:
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        wait_until(lambda: db.execute(waiting).fetchone() is not None, "the commit waits")
        db.execute(f"SELECT pg_cancel_backend(pid) FROM ({waiting}) waiting")
        thread.join()
    for standby in cluster.standbys:
        standby.resume()
    assert [type(fault) for fault in refused] == [OutcomeUnknown]
    repeated = log.append([fact("kept")], idempotency=KEY)
    assert repeated.replayed
    assert [event.position for event in log.read()] == [1, 2]


def test_a_write_that_no_standby_takes_is_unknown_after_its_time_and_found_later(
    cluster: Cluster, log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "COMMIT_SECONDS_MAX", 0.5)
    log.append([fact()])
    for standby in cluster.standbys:
        standby.pause()
    with pytest.raises(OutcomeUnknown):
        log.append([fact("kept")], idempotency=KEY)
    for standby in cluster.standbys:
        standby.resume()
    monkeypatch.setattr(session, "COMMIT_SECONDS_MAX", 10.0)
    assert log.append([fact("kept")], idempotency=KEY).events[0].position == 2
    assert log.head().position == 2


def test_a_base_backup_during_writes_restores_and_verifies(
    cluster: Cluster, log: PostgresLog
) -> None:
    log.append(facts(300))
    ending = threading.Event()

    def write() -> None:
        while not ending.is_set():
            log.append(facts(5))

    thread = threading.Thread(target=write)
    thread.start()
    before = log.head().position
    restored = Server(cluster.folder, "restored")
    try:
        restored.restore(cluster.primary)
        ending.set()
        thread.join()
        restored.start()
        wait_until(lambda: _out_of_recovery(restored), "the backup has been replayed")
        with PostgresLog.open(
            restored.url("node"), origin=ORIGIN, epoch=2, clock=SystemClock(), durability="server"
        ) as copy:
            assert copy.head().position >= before
            assert verify(copy).fault is None
            until = copy.head().position
            assert copy.read(limit=until) == log.read(limit=until)
            assert copy.append([fact()]).events[0].header.stream.startswith(f"{ORIGIN}/2/")
    finally:
        ending.set()
        thread.join()
        restored.stop()


def test_a_base_backup_and_archived_segments_restore_to_a_point_and_verify(
    own_postgres_servers: Servers,
) -> None:
    servers = own_postgres_servers
    restored = Server(servers.folder, "restored")
    try:
        server = servers.single(before_start=Server.archive)
        with (
            new_log(server) as url,
            PostgresLog.open(
                url, origin=ORIGIN, epoch=1, clock=SystemClock(), durability="server"
            ) as log,
            psycopg.connect(server.url(), autocommit=True) as db,
        ):
            log.append(facts(20))
            restored.restore(server)
            log.append(facts(30))
            (until,) = db.execute("SELECT clock_timestamp()::text").fetchone() or ("",)
            kept = log.head().position
            log.append(facts(10))
            archived = "SELECT last_archived_wal >= %s FROM pg_stat_archiver"
            switch = "SELECT pg_walfile_name(pg_switch_wal())"
            (end,) = db.execute(switch).fetchone() or ("",)
            wait_until(lambda: db.execute(archived, (end,)).fetchone() == (True,), "it is archived")
            restored.recover(servers.folder / "archive", until)
            restored.start()
            wait_until(lambda: _out_of_recovery(restored), "it has replayed the archive")
            with PostgresLog.open(
                restored.url("node"),
                origin=ORIGIN,
                epoch=2,
                clock=SystemClock(),
                durability="server",
            ) as copy:
                assert (copy.head().position, kept) == (50, 50)
                assert verify(copy).fault is None
                assert copy.read(limit=100) == log.read(limit=50)
                copy.append([fact()])
    finally:
        restored.stop()


def _out_of_recovery(server: Server) -> bool:
    with psycopg.connect(server.url(), autocommit=True) as db:
        return db.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)


@pytest.mark.usefixtures("postgres_binaries")
def test_a_full_disk_refuses_writes_loses_nothing_and_passes() -> None:
    try:
        servers = Servers(size_mb=220)
    except OSError as fault:
        pytest.skip(f"a small file system cannot be mounted here: {fault}")
    try:
        server = servers.single()
        with (
            new_log(server) as url,
            PostgresLog.open(
                url, origin=ORIGIN, epoch=1, clock=SystemClock(), durability="server"
            ) as log,
        ):
            acknowledged = [log.append(facts(50)).events[-1]]
            ballast = servers.folder / "ballast"
            _fill(ballast)
            with pytest.raises(StorageError):
                acknowledged.extend(log.append(facts(2_000)).events[-1] for _ in range(500))
            ballast.unlink()
            if server.ended():
                server.kill()
                server.start()
            wait_until(lambda: _takes(log), "the log takes writes again")
            found = {event.position: event for event in log.iterate()}
            assert all(found[event.position] == event for event in acknowledged)
            assert verify(log).fault is None
    finally:
        servers.close()


def _fill(path: os.PathLike[str]) -> None:
    """Fill the free space of the disk."""
    with open(path, "wb") as out:
        try:
            while True:
                out.write(bytes(1 << 20))
                out.flush()
        except OSError:
            return


def _takes(log: PostgresLog) -> bool:
    try:
        log.append([fact()])
    except StorageError:
        return False
    return True
