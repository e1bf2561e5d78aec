"""Scrubbing leaves no byte of what was erased in the log's file, and rewrites it only if it
must."""

import random
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.engines.sqlite import erasing as sqlite_erasing
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.engines.sqlite.remnants import are_free_pages_clean, with_remnants
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.log import Idempotency
from engramlog.replay.verify import verify
from tests.worlds.samples import erase, fact, open_log

PAGE_BYTES = 4_096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def raw(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


def writer_of(log: SqliteLog) -> apsw.Connection:
    return log._require_writer()  # pyright: ignore[reportPrivateUsage]


def was_rewritten(log: SqliteLog, before: int) -> bool:
    """Whether VACUUM ran since ``before``: it alone raises this number here."""
    return schema_version(log) != before


def schema_version(log: SqliteLog) -> int:
    version = writer_of(log).pragma("schema_version")
    assert isinstance(version, int)
    return version


def everything_in(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


def salts_of(log: SqliteLog, events: list[Recorded]) -> list[bytes]:
    stored = (log.read_stored(event.position - 1, 1)[0] for event in events)
    return [each.salt for each in stored if each.salt is not None]


def test_after_scrubbing_no_byte_of_an_erased_payload_is_in_any_file(path: Path) -> None:
    with open_log(path) as log:
        kept = log.append([fact(f"kept-{number}" * 40) for number in range(200)]).events
        gone = log.append([fact(f"secret-{number}" * 400) for number in range(50)]).events
        log.append([fact(f"kept-{number}" * 40) for number in range(200)])
        salts = [stored.salt for stored in log.read_stored(len(kept), len(gone))]
        erase(log, *gone)
        log.scrub()
        files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
        assert "log.db-wal" in files
        for name, data in files.items():
            assert b"secret-" not in data, name
            assert not [salt for salt in salts if salt is not None and salt in data], name
        assert b"kept-7kept-7" in files["log.db"]
        assert verify(log).fault is None


@contextmanager
def erased_beside_a_reader(path: Path) -> Generator[tuple[SqliteLog, apsw.Connection]]:
    """A log with an erased payload, and a connection that keeps its old pages until it commits."""
    with open_log(path) as log, closing(raw(path)) as reader:
        (gone,) = log.append([fact("secret " * 400)]).events
        log._require_writer().set_busy_timeout(1)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM payloads").fetchall()
        erase(log, gone)
        yield log, reader


def test_scrubbing_fails_while_a_reader_keeps_the_old_pages(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(sqlite_erasing.time, "sleep", pauses.append)
    with erased_beside_a_reader(path) as (log, reader):
        with pytest.raises(StorageFailed, match="a reader does not finish"):
            log.scrub()
        assert sum(pauses) <= 5, "a node that ends waits for it, and has ten seconds"
        reader.execute("COMMIT")
        log.scrub()


def test_others_write_while_a_reader_keeps_the_old_pages(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with erased_beside_a_reader(path) as (log, reader):
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            log.append([fact("written meanwhile")])
            if len(pauses) == 3:
                reader.execute("COMMIT")

        monkeypatch.setattr(sqlite_erasing.time, "sleep", pause)
        log.scrub()
        assert (len(pauses), log.head().position) == (3, 5)
        assert b"secret " not in everything_in(path)


def test_a_few_erasures_do_not_rewrite_the_file(path: Path) -> None:
    with open_log(path) as log:
        kept = list(log.append([fact(f"kept-{n}" * 40) for n in range(300)]).events)
        gone = list(log.append([fact("secret-short"), fact("secret-long" * 900)]).events)
        log.append([fact(f"kept-{n}" * 40) for n in range(300)])
        salts, before = salts_of(log, gone), schema_version(log)
        erase(log, *gone)
        log.scrub()
        found = everything_in(path)
        assert (b"secret-" in found, [salt for salt in salts if salt in found]) == (False, [])
        assert not was_rewritten(log, before)
        assert log.read_stored(0, 1)[0].hash == kept[0].hash
        assert verify(log).fault is None


def test_a_file_with_bytes_of_deleted_rows_is_rewritten(path: Path) -> None:
    with open_log(path) as log:
        log.append([fact(f"kept-{n}" * 40) for n in range(100)])
        gone = list(log.append([fact("secret-short")]).events)
        log.append([fact(f"kept-{n}" * 40) for n in range(100)])
        writer_of(log).execute("PRAGMA secure_delete = OFF")
        before = schema_version(log)
        erase(log, *gone)
        log.scrub()
        assert was_rewritten(log, before)
        assert b"secret-" not in everything_in(path)
        assert verify(log).fault is None


def test_the_first_payloads_of_a_file_older_than_overwriting_are_erased(path: Path) -> None:
    with open_log(path) as log:
        writer_of(log).execute("PRAGMA secure_delete = OFF").fetchall()
        gone = list(log.append([fact("secret-short"), fact("secret-long" * 40)]).events)
        for number in range(100):  # one by one: the root stops being a leaf
            log.append([fact(f"kept-{number}" * 20)])
    with open_log(path) as log:
        salts = salts_of(log, gone)
        erase(log, *gone)
        log.scrub()
        found = everything_in(path)
        assert (b"secret-" in found, [salt for salt in salts if salt in found]) == (False, [])
        assert verify(log).fault is None


@pytest.mark.parametrize("overwritten", [False, True])
def test_free_pages_with_bytes_of_deleted_rows_are_found(path: Path, overwritten: bool) -> None:
    with closing(raw(path)) as db:
        db.execute(f"PRAGMA secure_delete = {overwritten}")
        db.execute("CREATE TABLE payloads (position INTEGER PRIMARY KEY, payload BLOB)")
        db.executemany("INSERT INTO payloads VALUES (?, ?)", [(n, b"x" * 9_000) for n in range(99)])
        db.execute("DELETE FROM payloads WHERE position > 9")
        assert db.pragma("freelist_count") > 100
        assert are_free_pages_clean(db) is overwritten
        assert (with_remnants(db) == []) is overwritten


@pytest.mark.parametrize(
    ("at", "what"),
    [(-1, "between the cell pointers and the cells"), (2, "in a block that is free")],
)
def test_bytes_outside_of_rows_are_found(path: Path, at: int, what: str) -> None:
    with closing(raw(path)) as db:
        db.execute("CREATE TABLE payloads (position INTEGER PRIMARY KEY, payload BLOB)")
        db.executemany("INSERT INTO payloads VALUES (?, ?)", [(n, b"x" * 500) for n in range(4)])
        db.execute("PRAGMA secure_delete = ON")
        db.execute("DELETE FROM payloads WHERE position = 1")
        assert with_remnants(db) == []
    page = bytearray(path.read_bytes()[PAGE_BYTES:])
    content, free = (int.from_bytes(page[place : place + 2]) for place in (5, 1))
    place = content + at if at < 0 else free + 2 + at
    page[place] = ord("s")
    path.write_bytes(path.read_bytes()[:PAGE_BYTES] + page)
    with closing(raw(path)) as db:
        assert [each.number for each in with_remnants(db)] == [2], what


@given(
    sizes=st.lists(st.integers(1, 9_000), min_size=30, max_size=120),
    gone=st.sets(st.integers(0, 119), min_size=1),
    rounds=st.integers(1, 3),
)
def test_no_byte_of_an_erased_payload_is_left_whatever_is_erased(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], gone: set[int], rounds: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.db"
    with open_log(path) as log:
        events = [
            log.append([fact(f"<{number}>" * (1 + size // 10))]).events[0]
            for number, size in enumerate(sizes)
        ]
        chosen = sorted(number for number in gone if number < len(sizes))
        for first in range(rounds):
            some = chosen[first::rounds]
            if not some:
                continue
            salts = salts_of(log, [events[number] for number in some])
            erase(log, *[events[number] for number in some])
            log.scrub()
            found = everything_in(path)
            assert [salt for salt in salts if salt in found] == []
            # "<" stands nowhere else but in the texts
            assert [number for number in some if f"<{number}>".encode() in found] == []
        assert verify(log).fault is None


def test_no_digest_of_an_erased_request_is_left(path: Path) -> None:
    chance = random.Random(4)
    with open_log(path) as log:
        events, digests = [], []
        for number in range(400):  # keys in no order: their rows move between pages
            digests.append(chance.randbytes(32))
            key = Idempotency("agent:alice", chance.randbytes(40).hex(), digests[-1])
            events += log.append([fact(f"text {number}")], idempotency=key).events
        gone = range(0, 400, 40)
        erase(log, *[events[number] for number in gone])
        log.scrub()
        found = everything_in(path)
        parts = [digests[number][at : at + 8] for number in gone for at in (0, 8, 16, 24)]
        assert [part.hex() for part in parts if part in found] == []
        kept = [digest for number, digest in enumerate(digests) if number not in gone]
        assert all(digest in found for digest in kept)
        with pytest.raises(apsw.ConstraintError, match="append-only: no DELETE on idempotency"):
            writer_of(log).execute("DELETE FROM idempotency")
        assert verify(log).fault is None


def test_others_write_while_the_pages_are_looked_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(path) as log:
        (gone,) = log.append([fact("secret-short")]).events
        erase(log, gone)
        looked = SqliteLog.scrub.__globals__["with_remnants"]

        def writing(db: apsw.Connection) -> object:
            log.append([fact("written meanwhile")])
            return looked(db)

        monkeypatch.setitem(SqliteLog.scrub.__globals__, "with_remnants", writing)
        before = schema_version(log)
        log.scrub()
        assert not was_rewritten(log, before)
        assert log.head().position == 3


def test_rewritten_keys_do_not_make_the_file_be_rewritten(path: Path) -> None:
    chance = random.Random(4)
    with open_log(path) as log:
        events: list[Recorded] = []
        for number in range(1_000):
            key = Idempotency("agent:alice", chance.randbytes(40).hex(), chance.randbytes(32))
            events += log.append([fact(f"text {number}")], idempotency=key).events
        before = schema_version(log)
        for gone in (events[500], events[700]):
            erase(log, gone)
            log.scrub()
            assert not was_rewritten(log, before)
