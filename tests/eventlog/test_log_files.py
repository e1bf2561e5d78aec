"""The files of an open log that are cut off, out of reach, or at a limit: it takes no writes that
would be lost, and says why."""

import errno
import os
import resource
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from engramlog.eventlog.engines.sqlite import erasing, log_files, schema
from engramlog.eventlog.engines.sqlite import log as sqlite_log
from engramlog.eventlog.engines.sqlite.log_files import LogFiles
from engramlog.eventlog.errors import StorageFailed, StorageFull
from engramlog.replay.verify import verify
from tests.worlds.samples import erase, fact, facts, open_log


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_a_log_that_is_cut_off_takes_no_writes_that_would_leave_holes(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "log.db"
    with open_log(path) as log:
        log.append(facts(5))
    with open_log(path) as log:
        log.append([fact()])
        log.append([fact()])
        whole = path.read_bytes()
        os.truncate(tmp_path / name, 0)
        with pytest.raises(StorageFailed, match=rf"{name} was cut off .* restore a backup"):
            log.append([fact()])
        assert log.fault is not None
        assert log.head().position == 7
    if name == "log.db-wal":  # what had reached the database stays
        assert path.read_bytes() == whole
        with open_log(path) as log:
            assert (log.head().position, verify(log).fault) == (5, None)


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_a_log_whose_last_write_is_cut_off_takes_no_writes_after_it(
    tmp_path: Path, name: str
) -> None:
    with open_log(tmp_path / "log.db") as log:
        log.append(facts(5))
        # So much that SQLite merges it into the database.
        log.append(facts(20_000) if name == "log.db" else [fact()])
        size = (tmp_path / name).stat().st_size
        os.truncate(tmp_path / name, size - 4_096)
        with pytest.raises(StorageFailed, match=rf"{name} was cut off .* restore a backup"):
            log.append([fact()])


def test_a_log_takes_writes_after_another_process_emptied_its_write_ahead_log_during_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    with open_log(path) as log:
        log.append(facts(2_000))

        def check_before_another_process_merges(files: LogFiles, db: apsw.Connection) -> None:
            check(files, db)
            with closing(apsw.Connection(str(path))) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        check = LogFiles.check
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(LogFiles, "check", check_before_another_process_merges)
            log.append([fact()])
        log.append([fact()])
        assert (log.fault, log.head().position) == (None, 2_002)


@pytest.mark.parametrize("mode", ["PASSIVE", "TRUNCATE"])
def test_a_log_takes_writes_after_another_process_merged_a_scrub_that_a_reader_kept_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(erasing, "TRUNCATE_ATTEMPTS", 1)
    path = tmp_path / "log.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        writer = log._writer  # pyright: ignore[reportPrivateUsage]
        assert writer is not None
        writer.set_busy_timeout(0)
        # The free pages that scrubbing gives back.
        for change in ("CREATE TABLE t AS SELECT zeroblob(1000000)", "DROP TABLE t"):
            writer.execute(change)
        log.append([fact()])
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        log.append([fact()])
        other.execute("BEGIN; SELECT * FROM events LIMIT 1").fetchall()
        writer.execute("VACUUM")
        with pytest.raises(StorageFailed, match="a reader does not finish"):
            log.scrub()
        size = path.stat().st_size
        other.execute(f"COMMIT; PRAGMA wal_checkpoint({mode})").fetchall()
        assert path.stat().st_size < size
        log.append([fact()])
        assert log.fault is None


def test_a_log_takes_writes_after_another_process_merged_its_write_ahead_log(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.db"
    connect = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
    merge = connect + "db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall()"
    with open_log(path) as log:
        log.append(facts(4))
        log.append([fact()])
        subprocess.run([sys.executable, "-c", merge, str(path)], check=True)
        assert path.with_name("log.db-wal").stat().st_size == 0
        log.append([fact()])
        log.append([fact()])
        os.truncate(tmp_path / "log.db-wal", 0)
        with pytest.raises(StorageFailed, match="was cut off"):
            log.append([fact()])
    with open_log(path) as log:
        assert (log.head().position, verify(log).fault) == (5, None)


@pytest.mark.parametrize("newer", [2, 3, 300])
@pytest.mark.parametrize("merged", ["emptied", "kept", "not"])
def test_a_log_takes_no_writes_once_an_older_copy_was_written_over_it(
    tmp_path: Path, newer: int, merged: str
) -> None:
    """Whether the copy is smaller or not, and whether the newer events are in the write-ahead log
    only: the copy's pages are in another order."""
    path, copy = tmp_path / "log.db", tmp_path / "older.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append(facts(40))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        other.execute("VACUUM INTO ?", (str(copy),))
        log.append(facts(newer))
        if merged != "not":
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            log.append([fact()])
            mode = "TRUNCATE" if merged == "emptied" else "PASSIVE"
            other.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        path.write_bytes(copy.read_bytes())
        for _ in range(2):
            with pytest.raises(StorageFailed, match=r"log\.db(-wal)? was (cut off|written over)"):
                log.append([fact()])
        assert path.read_bytes() == copy.read_bytes()


def test_a_log_takes_no_writes_once_a_copy_without_a_streams_name_was_written_over_it(
    tmp_path: Path,
) -> None:
    """All its events are in the write-ahead log; what names their stream is not."""
    path, copy = tmp_path / "log.db", tmp_path / "older.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        other.execute("PRAGMA wal_checkpoint").fetchall()
        subprocess.run(["cp", path, copy], check=True)  # one that opens it here drops its locks
        log.append(facts(3))
        other.execute("PRAGMA wal_checkpoint").fetchall()
        log.append([fact()])
        assert path.stat().st_size == copy.stat().st_size
        path.write_bytes(copy.read_bytes())
        with pytest.raises(StorageFailed, match=r"log\.db was written over"):
            log.append([fact()])


def test_a_log_that_was_written_over_is_not_scrubbed(tmp_path: Path) -> None:
    """Scrubbing would take the copy for the log, and writes would go onto it."""
    path, copy = tmp_path / "log.db", tmp_path / "older.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append(facts(40))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        other.execute("VACUUM INTO ?", (str(copy),))
        log.append(facts(3))
        path.write_bytes(copy.read_bytes())
        for attempt in (log.scrub, lambda: log.append([fact()])):
            with pytest.raises(StorageFailed, match=r"log\.db was (cut off|written over)"):
                attempt()
        assert path.read_bytes() == copy.read_bytes()


def test_a_log_that_was_written_over_is_examined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "log.db", tmp_path / "older.db"
    examined: list[Path] = []

    def count(opened: Path) -> apsw.Connection:
        examined.append(opened)
        return connect(opened)

    connect = schema.connect_reader
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append(facts(40))
        other.execute("VACUUM INTO ?", (str(copy),))
        log.append([fact()])
        path.write_bytes(copy.read_bytes())
        monkeypatch.setattr(schema, "connect_reader", count)
        for _ in range(3):
            with pytest.raises(StorageFailed, match="was written over"):
                log.retry()
        assert examined == [path]


def test_a_log_takes_writes_after_nothing_of_it_was_lost(tmp_path: Path) -> None:
    """The copy has all that the write-ahead log has not."""
    path = tmp_path / "log.db"
    with open_log(path) as log:
        log.append(facts(300))
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append(facts(3))
        path.write_bytes(path.read_bytes())
        log.append([fact()])
        other.execute("BEGIN; SELECT * FROM events LIMIT 1").fetchall()
        log.append([fact()])
        other.execute("COMMIT; PRAGMA wal_checkpoint").fetchall()
        path.touch()
        log.append([fact()])
        assert log.fault is None
    with open_log(path) as log:
        assert (log.head().position, verify(log).fault) == (306, None)


@pytest.mark.parametrize("mode", ["PASSIVE", "TRUNCATE"])
def test_a_log_takes_writes_after_a_copy_of_all_its_events_was_written_over_it(
    tmp_path: Path, mode: str
) -> None:
    """They are on other pages than those that the node read."""
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        for _ in range(4):
            log.append(facts(100))
        log.append([fact()])
        other.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        other.execute("VACUUM INTO ?", (str(copy),))
        subprocess.run(["cp", copy, path], check=True)
        log.append([fact()])
    with open_log(path) as log:
        assert (log.head().position, verify(log).fault) == (402, None)


@pytest.mark.parametrize("after", ["REINDEX", "VACUUM", "ANALYZE"])
def test_a_log_takes_writes_after_another_program_emptied_its_write_ahead_log_and_wrote(
    tmp_path: Path, after: str
) -> None:
    """Less than the node had written. A table of its own, as that of ANALYZE, is no damage."""
    path = tmp_path / "log.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        for _ in range(3):
            log.append(facts(100))
        wal = path.with_name("log.db-wal")
        size = wal.stat().st_size
        other.execute(f"PRAGMA wal_checkpoint(TRUNCATE); {after}").fetchall()
        assert 0 < wal.stat().st_size < size
        log.append([fact()])
        assert log.fault is None
    with open_log(path) as log:
        assert len(log.read(limit=1000)) == 301


def test_a_log_takes_no_writes_once_its_tables_are_elsewhere_than_its_schema_says(
    tmp_path: Path,
) -> None:
    """A copy has them on other pages, and the file's first page, which counts the changes of the
    schema, is in the write-ahead log."""
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    with open_log(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append(facts(2))
        other.execute("VACUUM INTO ?", (str(copy),))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        other.execute("PRAGMA user_version = 2").fetchall()
        subprocess.run(["cp", copy, path], check=True)
        with pytest.raises(StorageFailed, match=r"log\.db was written over"):
            log.append([fact()])


def test_a_log_takes_writes_after_its_files_were_rewritten_smaller(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with open_log(path) as log:
        events = log.append(facts(200)).events
        log.append([fact()])
        size = path.stat().st_size + path.with_name("log.db-wal").stat().st_size
        erase(log, *events)
        log.scrub()
        assert path.stat().st_size + path.with_name("log.db-wal").stat().st_size < size
        log.append([fact()])
        assert (log.fault, verify(log).fault) == (None, None)


def test_a_log_that_cannot_be_looked_at_takes_no_writes_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    with open_log(tmp_path / "log.db") as log:
        log.append([fact()])
        with monkeypatch.context() as failing:
            failing.setattr(log_files, "os", SimpleNamespace(stat=fail))
            with pytest.raises(StorageFailed, match=r"log\.db: Input/output error"):
                log.append([fact()])
            assert log.fault == f"the log takes no writes: {tmp_path}/log.db: Input/output error"
        log.append([fact()])
        assert (log.fault, log.head().position) == (None, 2)


def test_a_limit_of_the_files_size_is_no_space_and_named(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_log(tmp_path / "log.db") as log:
        log.append([fact()])
        room = (tmp_path / "log.db-wal").stat().st_size + 4_096
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises(StorageFull, match="no space left for the log: File too large"):
                log.append(facts(2_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        log.append([fact()])
        assert (log.fault, log.head().position) == (None, 2)


def test_a_disk_that_was_full_is_usable_once_it_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a small write succeeds and a large one does not, the state does not change with each,
    and asking for it writes nothing."""
    free = [0]
    monkeypatch.setattr(sqlite_log.shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    wal = tmp_path / "log.db-wal"
    with open_log(tmp_path / "log.db") as log:
        log.append([fact()])
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size + 65_536, limits[1]))
        try:
            with pytest.raises(StorageFull):
                log.append(facts(2_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        fault = log.fault
        assert fault is not None
        log.append([fact()])
        size = wal.stat().st_size
        log.retry()
        assert (log.fault, wal.stat().st_size) == (fault, size)
        free[0] = sqlite_log.ROOM_BYTES_MIN
        log.retry()
        assert (log.fault, log.head().position) == (None, 2)


@pytest.mark.parametrize("words", ["", "not an error"])
def test_an_error_whose_words_sqlite_lost_has_its_name(words: str) -> None:
    class Lost(apsw.IOError):
        extendedresult = apsw.SQLITE_IOERR_FSYNC

    assert schema.words_of(Lost(words)) == "disk I/O error (SQLITE_IOERR_FSYNC)"
