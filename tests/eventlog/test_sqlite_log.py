"""The log in SQLite keeps the contract, and the promises of a file."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import header_hash
from engramlog.eventlog.engines.sqlite import schema as sqlite_schema
from engramlog.eventlog.engines.sqlite.copying import copy_database
from engramlog.eventlog.engines.stored_log import TAIL_CHECK_EVENTS
from engramlog.eventlog.errors import CorruptLog, DataDirectoryError, StorageFailed, StorageFull
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.log import EventLog, Idempotency
from engramlog.replay.verify import verify
from tests.eventlog.contract import LogContract
from tests.worlds.samples import ORIGIN, START_US, erase, erased, fact, facts, open_log


class TestSqliteLog(LogContract):
    @pytest.fixture
    def log(self, clock: FixedClock, tmp_path: Path) -> Iterator[EventLog]:
        log = open_log(tmp_path / "log.db", clock)
        yield log
        log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def raw(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


@pytest.mark.parametrize("table", ["streams", "events", "payloads", "idempotency"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET rowid = rowid"])
def test_the_files_triggers_refuse_changes(path: Path, table: str, change: str) -> None:
    with open_log(path) as log:
        log.append([fact()], idempotency=Idempotency("agent:alice", "key", b"digest"))
    statement = change.format(table)
    if table == "idempotency":
        statement = statement.replace("rowid", "key")
    with pytest.raises(apsw.ConstraintError, match=f"append-only: no .* on {table}"):
        raw(path).execute(statement)


def test_a_log_opened_again_continues_its_chain(path: Path) -> None:
    with open_log(path) as log:
        log.append([fact(), fact(scope="team")])
    with open_log(path) as log:
        log.append([fact(), fact(scope="team"), fact(scope="public")])
        assert [event.header.stream_seq for event in log.read()] == [1, 1, 2, 2, 1]
        assert verify(log).fault is None


def test_a_key_is_remembered_when_the_log_is_opened_again(path: Path) -> None:
    key = Idempotency("agent:alice", "key", b"digest")
    with open_log(path) as log:
        first = log.append(facts(2), idempotency=key)
    with open_log(path) as log:
        assert log.append(facts(2), idempotency=key).events == first.events


def test_time_does_not_go_back_when_the_wall_clock_did_before_reopening(path: Path) -> None:
    with open_log(path) as log:
        last = log.append(facts(3)).events[-1]
    with open_log(path, FixedClock(START_US - 3_600_000_000)) as log:
        event = log.append([fact()]).events[0]
    assert event.header.hlc > last.header.hlc
    assert event.received_at == last.received_at


def test_a_new_epoch_starts_new_streams_and_keeps_the_old(path: Path) -> None:
    with open_log(path) as log:
        log.append([fact()])
    with open_log(path, epoch=2) as log:
        assert log.append([fact()]).events[0].header.stream == f"{ORIGIN}/2/scope/company"
        assert {head.stream_seq for head in log.stream_heads().values()} == {1}
        assert verify(log).fault is None


def test_a_full_disk_is_storage_full_and_the_log_continues_with_space(path: Path) -> None:
    with open_log(path) as log:
        kept = log.append(facts(5)).events
        writer = log._require_writer()
        limit = writer.pragma("max_page_count")
        writer.pragma("max_page_count", writer.pragma("page_count"))
        key = Idempotency("agent:alice", "key", b"digest")
        with pytest.raises(StorageFull):
            log.append([*facts(2000), fact(scope="team")], idempotency=key)
        erasing = log.begin()
        erasing.append([*facts(2000), erased(kept[0])])
        erasing.erase([kept[0].event_id])
        with pytest.raises(StorageFull):  # the erasure itself is allowed
            erasing.commit()
        assert log.read() == kept
        assert log.head().position == 5
        writer.pragma("max_page_count", limit)
        again = log.append([fact(), fact(scope="team")], idempotency=key)
        assert not again.replayed
        assert [event.position for event in again.events] == [6, 7]
        assert verify(log).fault is None
    with open_log(path) as log:
        assert log.head().position == 7


def test_a_writer_in_the_way_is_an_error_and_nothing_is_kept(path: Path) -> None:
    with open_log(path) as log:
        log.append([fact()])
        log._require_writer().set_busy_timeout(1)
        other = raw(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageFailed, match="BusyError"):
            log.append([fact()])
        other.execute("ROLLBACK")
        assert log.append([fact()]).events[0].position == 2


def test_a_read_only_log_sees_the_commits_of_the_writer_and_cannot_write(path: Path) -> None:
    with open_log(path) as log, open_log(path, read_only=True) as reader:
        log.append([fact()])
        assert reader.read() == log.read()
        assert reader.head() == log.head()
        subscription = reader.subscribe(after=1)
        log.append([fact()])
        assert [event.position for event in subscription.take(10, 5)] == [2]
        with pytest.raises(StorageFailed, match="reading only"):
            reader.append([fact()])


def test_a_closed_log_is_one_file(path: Path) -> None:
    with open_log(path) as log:
        log.append([fact()])
        log.read()
    assert [file.name for file in path.parent.iterdir()] == ["log.db"]


def test_reading_a_missing_log_does_not_create_it(path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="no log"):
        open_log(path, read_only=True)
    assert not path.exists()


def test_a_file_of_another_program_is_refused_untouched(path: Path) -> None:
    other = raw(path)
    other.execute("CREATE TABLE notes (text)")
    other.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DataDirectoryError, match="no event log"):
            open_log(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_crash_while_the_file_is_made_leaves_one_that_opens(path: Path) -> None:
    raw(path).pragma("journal_mode", "delete")
    path.touch()
    with open_log(path) as log:
        assert log.append([fact()]).events[0].position == 1


def test_a_log_of_a_newer_release_is_refused_with_both_versions(path: Path) -> None:
    open_log(path).close()
    raw(path).pragma("user_version", 3)
    for read_only in (False, True):
        with pytest.raises(DataDirectoryError, match="log schema 3, this release reads 1"):
            open_log(path, read_only=read_only)


def test_a_log_of_schema_1_is_read_as_it_is_and_raised_when_written_to(path: Path) -> None:
    db = raw(path)
    for statement in sqlite_schema.STATEMENTS[1]:
        db.execute(statement)
    db.pragma("application_id", sqlite_schema.APPLICATION_ID)
    db.pragma("user_version", 1)
    db.close()
    with open_log(path, read_only=True) as log:
        assert verify(log).fault is None
    assert raw(path).pragma("user_version") == 1
    with open_log(path) as log:
        (event,) = log.append([fact()]).events
        erase(log, event)
        assert log.read()[0].payload is None
        assert verify(log).fault is None
    assert raw(path).pragma("user_version") == 2


def test_a_node_reopens_with_erased_payloads_in_its_tail_and_not_with_withheld_ones(
    path: Path,
) -> None:
    with open_log(path) as log:
        first, _ = log.append([fact("one"), fact("two")]).events
        erase(log, first)
    open_log(path).close()
    db = raw(path)
    db.execute("DROP TRIGGER payloads_no_delete")
    db.execute("DELETE FROM payloads WHERE position = 2")
    db.close()
    with pytest.raises(CorruptLog, match="payload is missing"):
        open_log(path)


def test_a_copy_needs_no_file_beside_it(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with open_log(path) as log:
        log.append(facts(3))
        copy_database(path, target)
    with closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        assert db.pragma("journal_mode") == "delete"
        assert db.execute("SELECT count(*) FROM events").get == 3
    assert [each.name for each in tmp_path.glob("copy.db*")] == ["copy.db"]


def test_a_file_that_cannot_be_opened_to_be_copied_is_named(tmp_path: Path) -> None:
    # As without its -shm file on a file system that takes no writes.
    with pytest.raises(StorageFailed, match=f"log.db: .* able to write in {tmp_path}"):
        copy_database(tmp_path / "log.db", tmp_path / "copy.db")


@pytest.mark.parametrize(
    ("trigger", "damage", "fault"),
    [
        (
            "payloads_no_update",
            "UPDATE payloads SET salt = zeroblob(16) WHERE position = 7",
            "payload does not match",
        ),
        (
            "events_no_delete",
            "DELETE FROM events WHERE position = 7",
            "missing: the next event is at 8",
        ),
    ],
)
def test_damage_in_the_last_events_keeps_the_log_from_opening(
    path: Path, trigger: str, damage: str, fault: str
) -> None:
    with open_log(path) as log:
        # of two streams: the chain of neither misses the other's event
        log.append([fact(scope="team" if number == 7 else "company") for number in range(1, 11)])
    db = raw(path)
    db.execute(f"DROP TRIGGER {trigger}")
    db.execute(damage)
    db.close()
    with pytest.raises(CorruptLog, match=f"position 7: {fault}"):
        open_log(path)


def test_opening_hashes_each_of_the_last_events_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(path) as log:
        log.append(facts(100))
    hashed: list[bytes] = []

    def counted(header: bytes) -> bytes:
        hashed.append(header)
        return header_hash(header)

    for module in ("chain", "codec"):
        monkeypatch.setattr(f"engramlog.eventlog.{module}.header_hash", counted)
    open_log(path).close()
    assert len(hashed) == len(set(hashed)) == TAIL_CHECK_EVENTS


def test_a_damaged_event_before_the_last_ones_is_found_by_whoever_reads_it(path: Path) -> None:
    with open_log(path) as log:
        log.append(facts(100))
    db = raw(path)
    db.execute("DROP TRIGGER payloads_no_update")
    payload = db.execute("SELECT payload FROM payloads WHERE position = 7").get
    altered = payload.replace(b"agent:", b"agent;")
    assert altered != payload
    db.execute("UPDATE payloads SET payload = ? WHERE position = 7", (altered,))
    db.close()
    with open_log(path) as log:
        assert len(log.read(7)) == 93
        with pytest.raises(CorruptLog, match="position 7: payload does not match"):
            log.read(6, 1)


def test_a_torn_wal_leaves_a_prefix_of_the_acknowledged_events(path: Path, tmp_path: Path) -> None:
    seed = 20_240_607
    dice = random.Random(seed)
    log = open_log(path)
    ends: list[tuple[int, int]] = [(0, 0)]
    wal = path.with_name("log.db-wal")
    for size in (1, 3, 1, 20, 2, 50, 1):
        position = log.append(facts(size)).events[-1].position
        ends.append((wal.stat().st_size, position))
    total = wal.stat().st_size
    for number in range(40):
        cut = dice.randrange(total + 1)
        torn = tmp_path / f"torn-{number}" / "log.db"
        torn.parent.mkdir()
        shutil.copy(path, torn)
        shutil.copy(wal, torn.with_name("log.db-wal"))
        with torn.with_name("log.db-wal").open("r+b") as file:
            file.truncate(cut)
        with open_log(torn) as survivor:
            durable = max(position for size, position in ends if size <= cut)
            report = verify(survivor)
            assert report.fault is None, f"seed {seed}, cut at {cut}"
            assert report.events == durable, f"seed {seed}, cut at {cut}"
            assert survivor.append([fact()]).events[0].position == durable + 1
    log.close()


def test_identifiers_of_one_source_never_need_a_look_up(path: Path) -> None:
    # Appending is fast only because time-ordered identifiers are known to be new.
    source = IdentifierSource("stigmem:node:test")
    ids = [source.next(START_US) for _ in range(1000)]
    with open_log(path) as log:
        drafts = [fact() for _ in ids]
        log.append(drafts)
        assert not any(log.holds(event_id) for event_id in sorted(ids))
        assert all(log.holds(draft.event_id) for draft in drafts)


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("READ_STREAM", "events_stream"),
        ("SELECT_POSITION_AT", "events_received_at"),
        ("SELECT_EVENT_ID", "sqlite_autoindex_events_1"),
        ("SELECT_STREAM_HEADS", "sqlite_autoindex_events_2"),
        ("READ_STREAM_SEQ", "sqlite_autoindex_events_2"),
        ("READ_ALL", "INTEGER PRIMARY KEY"),
    ],
)
def test_hot_statements_use_their_index(path: Path, statement: str, index: str) -> None:
    with open_log(path) as log:
        log.append(facts(10))
    sql = str(getattr(sqlite_schema, statement))
    plan = raw(path).execute(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?")).fetchall()
    assert index in str(plan)
    assert "TEMP B-TREE" not in str(plan)
    assert "SCAN e" not in str(plan)


@pytest.mark.parametrize("words", ["unable to open database file", "not an error"])
@pytest.mark.parametrize("fault", [apsw.CantOpenError, apsw.ReadOnlyError])
def test_a_directory_without_the_right_to_write_says_why_reading_needs_it(
    fault: type[apsw.Error], words: str
) -> None:
    with (
        pytest.raises(StorageFailed, match="database file: even to read, the process"),
        sqlite_schema.reading(),
    ):
        raise fault(words)
