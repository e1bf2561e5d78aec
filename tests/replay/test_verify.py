"""``verify`` finds the first fault of a log, names its position, and never raises."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import CorruptLog, DataDirectoryError
from engramlog.eventlog.event import Stored
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.log import Head, Idempotency
from engramlog.eventlog.signing import SignedHeads, sign_heads
from engramlog.replay import verify as verify_module
from engramlog.replay.verify import Fault, VerifyReport, verify, verify_file
from tests.worlds.samples import (
    COMPANY,
    ORIGIN,
    START_US,
    erase,
    erased,
    fact,
    facts,
    open_log,
)

EVENTS = 9
MIDDLE = 5
Tamper = Callable[[Path], VerifyReport]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of nine events in two streams, with an empty write-ahead log."""
    path = tmp_path / "log.db"
    clock = FixedClock(START_US)
    with open_log(path, clock) as log:
        for number in range(EVENTS):
            clock.advance(1_000)
            log.append([fact(f"value {number}", scope=("company", "team")[number % 2])])
    return path


def damaged(path: Path, *statements: str, triggers_back: bool = False) -> VerifyReport:
    """The report after someone edited the file, with or without restoring the triggers."""
    db = apsw.Connection(str(path))
    triggers: list[str] = []
    for table in ("streams", "events", "payloads", "idempotency"):
        for verb in ("update", "delete"):
            name = f"{table}_no_{verb}"
            triggers.append(
                str(db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).get)
            )
            db.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        db.execute(statement)
    for trigger in triggers if triggers_back else ():
        db.execute(trigger)
    db.close()
    return verify_file(path, origin=ORIGIN, epoch=1)


def whole(path: Path) -> VerifyReport:
    return verify_file(path, origin=ORIGIN, epoch=1)


def test_a_missing_payload_is_erased_where_an_event_names_it_and_withheld_otherwise(
    path: Path,
) -> None:
    with open_log(path) as log:
        erase(log, log.read()[2])
        assert verify(log).fault is None
    assert whole(path).fault is None
    fault = damaged(path, f"DELETE FROM payloads WHERE position = {MIDDLE}").fault
    assert fault is not None
    assert fault.position == MIDDLE
    assert "withheld" in fault.reason


def test_salt_and_payload_go_together(path: Path) -> None:
    with open_log(path) as log:
        transaction = log.begin()
        transaction.append([erased(log.read()[MIDDLE - 1])])
        transaction.commit()
    fault = damaged(path, f"UPDATE payloads SET payload = x'' WHERE position = {MIDDLE}").fault
    assert fault is not None
    assert fault.position == MIDDLE


def test_a_log_as_it_was_written_has_no_fault(path: Path) -> None:
    with open_log(path) as log:
        assert verify(log) == VerifyReport(EVENTS, 2, log.head())


def test_an_empty_log_has_no_fault(tmp_path: Path) -> None:
    with open_log(tmp_path / "log.db") as log:
        assert verify(log) == VerifyReport(0, 0, Head())
    assert verify(MemoryLog(ORIGIN, 1, FixedClock())).fault is None


def test_progress_is_reported_up_to_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "PAGE_EVENTS", 4)
    told: list[tuple[int, int]] = []
    with open_log(path) as log:
        assert verify(log, progress=lambda done, total: told.append((done, total))).fault is None
    assert told == [(4, EVENTS), (8, EVENTS), (EVENTS, EVENTS)]


@pytest.mark.parametrize("page", [1, 2, 3, 2000])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("events", "event_id"),
        ("events", "kind"),
        ("events", "header"),
        ("events", "hash"),
        ("payloads", "salt"),
        ("payloads", "payload"),
    ],
)
def test_one_flipped_byte_in_any_column_of_bytes_is_found_at_its_position(
    path: Path, table: str, column: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "PAGE_EVENTS", page)
    db = apsw.Connection(str(path))
    value = db.execute(f"SELECT {column} FROM {table} WHERE position = {MIDDLE}").get
    data = value.encode() if isinstance(value, str) else value
    for offset in range(0, len(data), max(1, len(data) // 8)):
        copy = path.with_name(f"{column}-{offset}.db")
        shutil.copy(path, copy)
        flipped = bytearray(data)
        flipped[offset] ^= 1
        literal = f"X'{flipped.hex()}'"
        if isinstance(value, str):
            literal = f"CAST({literal} AS TEXT)"
        report = damaged(copy, f"UPDATE {table} SET {column} = {literal} WHERE position = {MIDDLE}")
        assert report.fault is not None, f"{column} at {offset}"
        assert report.fault.position == MIDDLE, report
        assert report.events == MIDDLE - 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("received_at = received_at + 1", "local times"),
        ("received_at = 1", "received_at went back"),
        ("received_hlc = received_hlc + 1", "local times"),
        ("received_hlc = 1", "received_hlc went back"),
        ("peer = 'stigmem:node:another'", "came through peer"),
        ("stream_no = 77", "column stream is None"),
        ("stream_seq = 77", "column stream_seq is 77"),
        ("kind = 'key_issued'", "column kind is 'key_issued'"),
        ("event_id = zeroblob(16)", "column event_id"),
        ("event_id = x''", "column event_id"),
        ("header = x''", "undecodable"),
        ("kind = CAST(x'ff' AS TEXT)", "malformed"),
    ],
)
def test_one_changed_column_is_found_with_its_reason(path: Path, change: str, reason: str) -> None:
    fault = damaged(path, f"UPDATE events SET {change} WHERE position = {MIDDLE}").fault
    assert fault is not None
    assert fault.position == MIDDLE
    assert reason in fault.reason


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM events WHERE position = {MIDDLE}",
        f"UPDATE events SET position = 100 WHERE position = {MIDDLE}",
        f"DELETE FROM payloads WHERE position = {MIDDLE}",
        f"UPDATE payloads SET position = 100 WHERE position = {MIDDLE}",
    ],
)
def test_a_gap_in_the_middle_is_found(path: Path, statement: str) -> None:
    fault = damaged(path, statement).fault
    assert fault is not None
    assert fault.position in (MIDDLE, MIDDLE + 1)
    assert "missing" in fault.reason


@pytest.fixture
def keyed(path: Path) -> Path:
    """The log with two requests with idempotency keys, one of several events."""
    with open_log(path, FixedClock(START_US + 1_000_000)) as log:
        for key, count in (("one", 1), ("many", 3)):
            log.append(facts(count), idempotency=Idempotency("agent:alice", key, b"digest"))
    return path


def test_kept_keys_are_as_the_events_name_them(keyed: Path) -> None:
    assert whole(keyed).fault is None


def test_a_key_that_a_node_writes_meanwhile_is_no_fault(keyed: Path) -> None:
    with open_log(keyed) as log:

        def written(position: int, total: int) -> None:
            key = f"after {position} of {total}"
            log.append(facts(2), idempotency=Idempotency("agent:alice", key, b"digest"))

        assert verify(log, progress=written).fault is None
        assert log.head().position == 15


@pytest.mark.parametrize("page", [2, 2000])
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM idempotency WHERE key = 'one'", "'one' is missing"),
        ("DELETE FROM idempotency WHERE key = 'many'", "'many' is missing"),
        ("UPDATE idempotency SET key = 'other' WHERE key = 'one'", "'one' is missing"),
        ("UPDATE idempotency SET actor = 'other' WHERE key = 'one'", "'one' is missing"),
        ("UPDATE idempotency SET last_position = 11 WHERE key = 'many'", "positions 11 to 11"),
        ("UPDATE idempotency SET first_position = 10 WHERE key = 'many'", "positions 10 to 13"),
        ("UPDATE idempotency SET last_position = 14 WHERE key = 'many'", "positions 11 to 14"),
        ("UPDATE idempotency SET last_position = 11 WHERE key = 'one'", "positions 10 to 11"),
        ("UPDATE idempotency SET digest = x'' WHERE key = 'one'", "digest"),
        ("INSERT INTO idempotency VALUES ('agent:eve', 'taken', x'00', 2, 2)", "are kept"),
        ("INSERT INTO idempotency VALUES ('agent:eve', 'taken', x'00', 77, 77)", "are kept"),
        ("INSERT INTO streams VALUES (77, 'a stream without events')", "has no events"),
        ("INSERT INTO payloads VALUES (77, x'00', x'00')", "no event"),
    ],
)
def test_a_changed_row_of_another_table_is_found(
    keyed: Path, monkeypatch: pytest.MonkeyPatch, page: int, statement: str, reason: str
) -> None:
    monkeypatch.setattr(verify_module, "PAGE_EVENTS", page)
    fault = damaged(keyed, statement, triggers_back=True).fault
    assert fault is not None
    assert reason in fault.reason


def test_two_events_that_changed_places_are_found(path: Path) -> None:
    fault = damaged(
        path,
        "UPDATE events SET position = 100 WHERE position = 5",
        "UPDATE events SET position = 5 WHERE position = 7",
        "UPDATE events SET position = 7 WHERE position = 100",
    ).fault
    assert fault is not None
    assert fault.position == MIDDLE


def test_a_renamed_stream_is_found_at_its_first_event(path: Path) -> None:
    fault = damaged(path, "UPDATE streams SET stream = 'x' WHERE stream_no = 2").fault
    assert fault is not None
    assert (fault.position, fault.stream) == (2, "x")


def test_a_log_without_its_triggers_is_a_fault(path: Path) -> None:
    fault = damaged(path).fault
    assert fault is not None
    assert fault.position == 0
    assert "storage: missing from the schema: CREATE TRIGGER" in fault.reason


def test_no_flipped_byte_in_the_file_changes_an_event_in_silence(
    path: Path, tmp_path: Path
) -> None:
    seed = 20_251_120
    dice = random.Random(seed)
    with open_log(path) as log:
        log.append(facts(60))
    with open_log(path, read_only=True) as log:
        truth = log.read_stored(limit=1000)
    whole_file = path.read_bytes()
    found = 0
    for number in range(400):
        offset, bit = dice.randrange(len(whole_file)), dice.randrange(8)
        copy = tmp_path / f"flipped-{number}.db"
        data = bytearray(whole_file)
        data[offset] ^= 1 << bit
        copy.write_bytes(data)
        try:
            report = whole(copy)
        except DataDirectoryError:  # the file's own header: refused by name
            continue
        if report.fault is not None:
            found += 1
            continue
        with SqliteLog.open(
            copy, origin=ORIGIN, epoch=1, clock=FixedClock(), read_only=True
        ) as log:
            assert log.read_stored(limit=1000) == truth, f"seed {seed}, offset {offset}"
        copy.unlink()
    assert found > 100, "most bytes of the file are in use"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_file_cut_short_is_a_fault_not_an_exception(path: Path, share: float) -> None:
    with open_log(path) as log:
        log.append(facts(200))
    with path.open("r+b") as file:
        file.truncate(max(100, int(path.stat().st_size * share)))
    report = whole(path)
    assert report.fault is not None
    assert report.events < EVENTS + 200


def test_pages_overwritten_with_noise_stop_reading_at_a_position(path: Path) -> None:
    with open_log(path) as log:
        log.append(facts(500))
    dice = random.Random(1)
    with path.open("r+b") as file:
        for page in range(12, path.stat().st_size // 4096, 9):
            file.seek(page * 4096)
            file.write(dice.randbytes(4096))
    fault = whole(path).fault
    assert fault is not None
    assert fault.position > 0 or "storage" in fault.reason


def test_an_engine_without_columns_is_checked_by_its_bytes() -> None:
    log = MemoryLog(ORIGIN, 1, FixedClock(START_US))
    log.append(facts(EVENTS))
    assert verify(log).events == EVENTS
    for name, value in (("salt", bytes(16)), ("header", b""), ("received_hlc", 1), ("peer", "p")):
        links = list(log._links)
        recorded, stored = links[MIDDLE - 1]
        log._links[MIDDLE - 1] = (recorded, msgspec.structs.replace(stored, **{name: value}))
        fault = verify(log).fault
        assert fault is not None, name
        assert fault.position == MIDDLE, name
        log._links[:] = links
    assert verify(log).fault is None


def test_an_event_id_that_occurs_twice_is_found() -> None:
    log = MemoryLog(ORIGIN, 1, FixedClock(START_US))
    draft = fact()
    log.append([draft])
    log._ids.clear()
    log.append([draft])
    fault = verify(log).fault
    assert fault is not None
    assert fault.position == 2
    assert "occurs twice" in fault.reason


def test_damage_below_the_engine_is_a_fault_where_reading_stopped() -> None:
    class Failing(MemoryLog):
        def read_stored(self, after: int = 0, limit: int = 1000, streams=None) -> list[Stored]:
            if after + limit >= MIDDLE:
                raise CorruptLog(0, "unreadable sector")
            return super().read_stored(after, limit, streams)

    log = Failing(ORIGIN, 1, FixedClock(START_US))
    log.append(facts(EVENTS))
    assert verify(log).fault == Fault(MIDDLE, "", 0, "unreadable sector")
    assert verify(log).events == MIDDLE - 1


# -- against heads kept elsewhere


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity.create(tmp_path / "identity", FixedClock(START_US))


def exported(log: SqliteLog | MemoryLog, identity: Identity) -> SignedHeads:
    return sign_heads(identity, log.head(), log.stream_heads(), START_US)


def own_log(identity: Identity, events: int, text: str = "value") -> MemoryLog:
    log = MemoryLog(identity.node_id, 1, FixedClock(START_US), lambda size: b"\x01" * size)
    log.append(
        [msgspec.structs.replace(fact(text), event_id=bytes([n] * 16)) for n in range(events)]
    )
    return log


def test_a_log_that_grew_since_still_agrees_with_its_heads(identity: Identity) -> None:
    heads = exported(own_log(identity, 3), identity)
    assert verify(own_log(identity, 5), against=heads).fault is None
    keys = [identity.public_key_b64]
    assert verify(own_log(identity, 3), against=heads, public_keys=keys).fault is None


def test_a_tail_cut_off_is_seen_only_against_heads(identity: Identity) -> None:
    heads = exported(own_log(identity, 5), identity)
    cut = own_log(identity, 3)
    assert verify(cut).fault is None
    fault = verify(cut, against=heads).fault
    assert fault is not None
    assert "log was cut back: head says" in fault.reason
    assert fault.reason.endswith("reached 5, log ends at 3")
    assert (fault.position, fault.stream_seq) == (3, 5)


def test_another_history_differs_from_a_cut(identity: Identity) -> None:
    heads = exported(own_log(identity, 3), identity)
    fault = verify(own_log(identity, 5, "another value"), against=heads).fault
    assert fault is not None
    assert (fault.position, fault.stream_seq) == (3, 3)
    assert "another history" in fault.reason


def test_a_missing_stream_is_reported_as_a_cut(identity: Identity) -> None:
    log = own_log(identity, 2)
    heads = exported(log, identity)
    fault = verify(own_log(identity, 0), against=heads).fault
    assert fault is not None
    assert fault.stream == COMPANY.replace(ORIGIN, identity.node_id)


def test_unsigned_heads_are_refused(identity: Identity, tmp_path: Path) -> None:
    log = own_log(identity, 2)
    forged = msgspec.structs.replace(exported(log, identity), position=1)
    fault = verify(log, against=forged).fault
    assert fault is not None
    assert "signature" in fault.reason
    stranger = Identity.create(tmp_path / "stranger", FixedClock(START_US))
    keys = [stranger.public_key_b64]
    fault = verify(log, against=exported(log, identity), public_keys=keys).fault
    assert fault is not None
    assert "does not speak for" in fault.reason
