"""Storage and clock that fail under a serving node: its refusals, reports, and recovery.

Full and read-only file systems: ``tests/system/test_disk_full.py``.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.directory import DataDirectory
from engramlog.eventlog.errors import StorageFull
from engramlog.projections.writing import writer
from engramlog.replay.verify import verify_file
from tests.worlds.data_files import files_with
from tests.worlds.failing_storage import FailingDisk
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact
from tests.worlds.waiting import until

NOON_US = 1_780_000_000_000_000
DAY_US = 86_400_000_000


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    found = FailingDisk()
    yield found
    found.close()


def ready(live: LiveNode) -> tuple[int, str]:
    answer = live.call("GET", "/readyz")
    return answer.status_code, answer.json().get("reason", "")


def written(live: LiveNode, number: int) -> int:
    body = fact(v=f"fact {number}", relation=f"memory:r{number}")
    return int(live.call("POST", "/v1/facts", json=body).status_code)


def held(live: LiveNode) -> set[str]:
    found = live.call("GET", "/v1/facts", params={"include_contradicted": "true"}).json()["facts"]
    return {each["value"]["v"] for each in found}


def check_log(folder: Path) -> None:
    directory = DataDirectory.inspect(folder)
    identity = directory.identity
    report = verify_file(directory.log_path, origin=identity.node_id, epoch=identity.epoch)
    assert report.fault is None


@pytest.mark.parametrize(
    ("operation", "error", "status"),
    [
        ("sync", apsw.IOError, 503),
        ("write", apsw.ReadOnlyError, 503),
        ("write", apsw.FullError, 507),
    ],
)
def test_a_log_that_takes_no_writes_is_reported_and_recovers(
    tmp_path: Path, disk: FailingDisk, operation: str, error: type[apsw.Error], status: int
) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        assert written(live, 0) == 201
        disk.failing = operation, "log.db", error
        assert written(live, 1) == status
        code, reason = ready(live)
        assert (code, "the log takes no writes" in reason) == (503, True)
        assert held(live) == {"fact 0"}  # reads go on
        disk.failing = None
        assert ready(live) == (200, "")  # without a write, without a restart
        assert written(live, 2) == 201
        assert held(live) == {"fact 0", "fact 2"}
    finally:
        live.close()
    check_log(tmp_path / "data")
    again = LiveNode(tmp_path / "data")
    try:
        assert held(again) == {"fact 0", "fact 2"}
    finally:
        again.close()


def test_tables_that_cannot_follow_hold_nothing_back_and_catch_up(
    tmp_path: Path, disk: FailingDisk
) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        assert written(live, 0) == 201
        disk.failing = "write", "projections", apsw.FullError
        assert written(live, 1) == 201  # the log and the memory image have it
        live.call("GET", "/v1/conflicts")  # reads the tables
        code, reason = ready(live)
        assert (code, "behind the log" in reason) == (503, True)
        disk.failing = None
        assert ready(live) == (200, "")
        assert held(live) == {"fact 0", "fact 1"}
        assert live.node.rebuild().digest == live.node.reader.digests().local
    finally:
        live.close()


def test_the_self_check_names_what_storage_refuses(tmp_path: Path, disk: FailingDisk) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        disk.failing = "write", "projections", apsw.FullError
        assert written(live, 0) == 201
        answer = live.call("GET", "/v1/doctor")
        found = {each["name"]: each for each in answer.json()["checks"]}
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert found["events"]["status"] == "failed"
        assert "no space left for the tables" in found["events"]["detail"]
        assert found["sanitizer"]["status"] == "ok"
        disk.failing = None
        assert ready(live) == (200, "")
        assert live.call("GET", "/v1/doctor").json()["status"] == "ok"
    finally:
        live.close()


def test_metrics_go_on_while_the_tables_take_nothing(tmp_path: Path, disk: FailingDisk) -> None:
    def shown() -> dict[str, str]:
        answer = live.call("GET", "/metrics")
        assert answer.status_code == 200, answer.text
        lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
        return dict(line.rsplit(" ", 1) for line in lines)

    live = LiveNode(tmp_path / "data")
    try:
        whole = shown()
        assert whole["engramlog_ready"] == "1"
        disk.failing = "write", "projections", apsw.FullError
        assert written(live, 0) == 201
        live.call("GET", "/v1/conflicts")  # reads the tables
        part = shown()
        assert part["engramlog_ready"] == "0"
        assert "process_cpu_seconds_total" in part
        assert "engramlog_unknown_events" not in part  # only the tables know
        until(lambda: shown()['engramlog_task_failing{task="webhooks"}'] == "1")
        disk.failing = None
        assert ready(live) == (200, "")
        assert whole.keys() <= shown().keys()
        until(lambda: shown()['engramlog_task_failing{task="webhooks"}'] == "0")
    finally:
        live.close()


def test_a_write_that_cannot_be_read_back_is_not_called_refused(
    tmp_path: Path, disk: FailingDisk
) -> None:
    live = LiveNode(tmp_path / "data")
    episode = {"user": "ann", "session": "s", "agent": "a", "content": "tea", "id": "one"}
    try:
        live.call("GET", "/v1/conflicts")  # the tables' side files are there
        disk.failing = "write", "projections", apsw.FullError
        answer = live.call("POST", "/v1/episodes", json=episode)
        assert (answer.status_code, answer.json()["detail"]["code"]) == (503, "outcome_unknown")
        disk.failing = None
        assert live.call("POST", "/v1/episodes", json=episode).status_code == 200
        found = live.call("GET", "/v1/episodes", params={"user": "ann"}).json()["episodes"]
        assert [each["content"] for each in found] == ["tea"]
    finally:
        live.close()


BOB = "b" * 40


def key_lost(live: LiveNode, disk: FailingDisk) -> str:
    """A key that the node does not know for now: the tables could not take another."""
    ann = live.key_of("ann")
    live.call("GET", "/v1/conflicts", key=ann)  # the tables are up to date
    disk.failing = "write", "projections", apsw.FullError
    asked = {"raw_key": BOB, "entity_uri": "agent:bob", "permissions": ["read"]}
    made = live.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json=asked)
    assert (made.status_code, made.json()["detail"]["code"]) == (503, "outcome_unknown")
    assert live.call("GET", "/v1/facts", key=ann).status_code == 401  # it may be revoked
    disk.failing = None
    return ann


def test_keys_that_the_tables_cannot_take_are_valid_once_they_can(
    tmp_path: Path, disk: FailingDisk
) -> None:
    live = LiveNode(tmp_path / "data", auth_required=True)
    try:
        ann = key_lost(live, disk)
        assert ready(live) == (200, "")
        for key in (ann, BOB):
            assert live.call("GET", "/v1/facts", key=key).status_code == 200
        live.state(key=ann)
    finally:
        live.close()


def test_keys_are_valid_again_though_no_probe_and_no_write_comes(
    tmp_path: Path, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no key is valid, no caller can write."""
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.05)
    live = LiveNode(tmp_path / "data", auth_required=True)
    try:
        ann = key_lost(live, disk)
        until(lambda: live.call("GET", "/v1/facts", key=ann).status_code == 200)
    finally:
        live.close()


@pytest.mark.parametrize("fault", [apsw.CantOpenError("unable to open"), MemoryError()])
def test_keys_that_cannot_be_loaded_now_are_loaded_later_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """As without a free file descriptor: a reader cannot be opened."""
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.05)
    live = LiveNode(tmp_path / "data", auth_required=True)

    def fail(_: object) -> None:
        raise fault

    try:
        ann = live.key_of("ann")
        asked = {"raw_key": "b" * 40, "entity_uri": "agent:bob", "permissions": ["read"]}
        with monkeypatch.context() as failing:
            failing.setattr(live.node.reader, "refresh", fail)
            failing.setattr(live.node.reader, "_load", lambda: fail(None))
            live.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json=asked)
            assert live.call("GET", "/v1/facts", key=ann).status_code == 401
        until(lambda: live.node.writer.degraded is None)
        for key in (ann, BOB):
            assert live.call("GET", "/v1/facts", key=key).status_code == 200
    finally:
        live.close()


def test_an_erasure_that_the_tables_cannot_take_is_finished_once_they_can(
    tmp_path: Path, disk: FailingDisk
) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        body = {"fact_ids": [live.state(v="zanzibar quokka 9911")["id"]]}
        live.call("GET", "/v1/conflicts")  # the tables are up to date
        disk.failing = "write", "projections", apsw.FullError
        begun = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
        assert (begun.status_code, begun.json()["detail"]["code"]) == (503, "outcome_unknown")
        assert held(live) == set()
        disk.failing = None
        assert ready(live) == (200, "")
        repeated = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
        assert repeated.status_code == 404
        [erasure] = live.call("GET", "/v1/erasures", key=CONTROL_TOKEN).json()["erasures"]
        assert live.run(live.service().cleaning.wait(erasure["erasure_id"], 40.0))
    finally:
        live.close()
    assert not files_with(tmp_path / "data", b"zanzibar quokka 9911")


def test_a_log_that_is_moved_away_takes_no_writes_until_it_returns(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        assert written(live, 0) == 201
        log = tmp_path / "data" / "log.db"
        log.rename(tmp_path / "elsewhere")
        assert written(live, 1) == 503
        code, reason = ready(live)
        assert (code, "removed or replaced" in reason) == (503, True)
        assert held(live) == {"fact 0"}
        (tmp_path / "elsewhere").rename(log)
        assert ready(live) == (200, "")
        assert written(live, 2) == 201
    finally:
        live.close()
    check_log(tmp_path / "data")


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_directory_that_vanishes_before_the_first_write_takes_none(
    tmp_path: Path, how: str
) -> None:
    data = tmp_path / "data"
    live = LiveNode(data)
    assert written(live, 0) == 201
    live.close()
    live = LiveNode(data)
    try:
        data.rename(tmp_path / "elsewhere")
        if how == "replaced":
            shutil.copytree(tmp_path / "elsewhere", data)
        assert written(live, 1) == 503
        if how == "replaced":
            shutil.rmtree(data)
        (tmp_path / "elsewhere").rename(data)
        assert written(live, 2) == 201
        assert held(live) == {"fact 0", "fact 2"}
    finally:
        live.close()
    check_log(data)


def test_lost_tables_are_made_again_at_the_next_start(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        assert written(live, 0) == 201
        for path in (tmp_path / "data").glob("projections*"):
            path.unlink()
        assert written(live, 1) == 201
        assert held(live) == {"fact 0", "fact 1"}
    finally:
        live.close()
    again = LiveNode(tmp_path / "data")
    try:
        assert held(again) == {"fact 0", "fact 1"}
        assert ready(again) == (200, "")
    finally:
        again.close()


def test_a_clock_jump_loses_and_reorders_nothing_and_is_reported(tmp_path: Path) -> None:
    clock = FixedClock(NOON_US)
    live = LiveNode(tmp_path / "data", clock=clock)

    def behind() -> float:
        return float(live.call("GET", "/readyz").json()["clock_behind_s"])

    try:
        first = live.state(v="at noon")
        assert behind() == 0.0
        clock.advance(DAY_US)
        second = live.state(v="a day ahead")
        clock.advance(-DAY_US)
        third = live.state(v="at noon again")
        assert behind() == pytest.approx(86_400.0, abs=1.0)
        assert ready(live) == (200, "")
        assert first["position"] < second["position"] < third["position"]
        assert first["hlc"] < second["hlc"] < third["hlc"]
        live.close()
        live = LiveNode(tmp_path / "data", clock=clock)
        assert held(live) == {"at noon", "a day ahead", "at noon again"}
        clock.advance(DAY_US + 60_000_000)
        assert behind() == 0.0
        assert live.state(v="later")["hlc"] > third["hlc"]
    finally:
        live.close()
    check_log(tmp_path / "data")


def test_tables_without_room_are_named_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr("engramlog.api.node.node.open_tables", full)
    with pytest.raises(StorageFull, match="no space left for the tables"):
        Node.open(tmp_path / "data")
    monkeypatch.undo()
    Node.open(tmp_path / "data").close()
