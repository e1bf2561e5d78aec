"""Snapshots over HTTP: by hand, automatic, and in a rebuild's report."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from engramlog.api.node.tasks import snapshots as snapshotting
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

PATH = "/v1/admin/snapshots"


def ask(live: LiveNode, method: str, path: str, **given: Any) -> Any:
    return live.call(method, path, key=CONTROL_TOKEN, **given)


def finished(live: LiveNode, path: str, of: str | None = None) -> dict[str, Any]:
    def job() -> dict[str, Any]:
        found = ask(live, "GET", path).json()
        return found if of is None else found[of]

    until(lambda: job()["status"] in ("done", "error"))
    return job()


def taken(live: LiveNode, **body: Any) -> dict[str, Any]:
    begun = ask(live, "POST", PATH, json=body) if body else ask(live, "POST", PATH)
    assert begun.status_code == 202, begun.text
    job = finished(live, PATH, "job")
    assert job["status"] == "done", job
    return job["result"]


def positions(live: LiveNode) -> list[int]:
    return [each["position"] for each in ask(live, "GET", PATH).json()["snapshots"]]


def test_taking_listing_verifying_and_removing(live: LiveNode) -> None:
    first = live.state(v="one", relation="tag:a")["position"]
    head = live.state(v="two", relation="tag:b")["position"]
    now = taken(live)
    assert now["position"] == head
    assert now["digest"] == live.node.reader.digests().local
    assert taken(live, position=first)["position"] == first
    assert positions(live) == [head, first]
    assert ask(live, "POST", f"{PATH}/verify", json={"replay": True}).status_code == 202
    assert finished(live, PATH, "job")["result"] == {
        "checked": [{"position": head, "fault": None}, {"position": first, "fault": None}]
    }
    live.node.snapshots.path(head).write_bytes(b"")
    ask(live, "POST", f"{PATH}/verify", json={"position": head})
    (checked,) = finished(live, PATH, "job")["result"]["checked"]
    assert checked == {"position": head, "fault": "its file is not as it was written"}
    assert ask(live, "DELETE", f"{PATH}/{head}").json() == {"removed": head}
    assert positions(live) == [first]
    assert not list(live.node.snapshots.folder.glob(f"*{head}*"))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", PATH, {"position": 10**6}, 400, "as_of_future"),
        ("POST", PATH, {"position": 0}, 422, None),
        ("POST", PATH, {"position": -1}, 422, None),
        ("POST", PATH, {"position": "1"}, 422, None),
        ("POST", PATH, {"at": 1}, 422, None),
        ("POST", f"{PATH}/verify", {"position": 1}, 404, "snapshot_not_found"),
        ("POST", f"{PATH}/verify", {"replay": "yes please"}, 422, None),
        ("DELETE", f"{PATH}/1", None, 404, "snapshot_not_found"),
        ("DELETE", f"{PATH}/-1", None, 404, "snapshot_not_found"),
        ("DELETE", f"{PATH}/1e3", None, 404, "snapshot_not_found"),
        ("DELETE", f"{PATH}/{'9' * 40}", None, 404, "snapshot_not_found"),
        ("DELETE", f"{PATH}/..%2F..%2Flog", None, 404, None),
        ("GET", "/v1/replication/snapshots/7", None, 404, "snapshot_not_found"),
        ("POST", "/v1/admin/rebuild", {"from": 1}, 422, None),
    ],
)
def test_bad_requests_are_refused(
    refusing: LiveNode, method: str, path: str, body: Any, status: int, code: str | None
) -> None:
    refusing.state()
    answer = ask(refusing, method, path, json=body)
    assert answer.status_code == status, answer.text
    if code is not None:
        assert answer.json()["detail"]["code"] == code


def test_only_admins_see_or_take_them_and_only_replicas_fetch(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    reader, admin = live.mint("read", "write"), live.mint("admin", "read")
    taken(live)
    for method, path in (
        ("GET", PATH), ("POST", PATH), ("POST", f"{PATH}/verify"), ("DELETE", f"{PATH}/1"),
        ("GET", "/v1/replication/snapshots"), ("GET", "/v1/replication/snapshots/1"),
    ):  # fmt: skip
        assert live.call(method, path, key=reader).status_code == 403, path
        assert live.call(method, path).status_code == 401, path
    assert live.call("GET", PATH, key=admin).status_code == 200
    assert live.call("GET", "/v1/replication/snapshots", key=admin).status_code == 403


def test_the_node_takes_them_by_itself_and_keeps_the_newest(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotting, "LOOK_SECONDS", 0.02)
    live = serve(snapshots_every_events=10, snapshots_keep=2)
    asked = head = taken(live)["position"]
    seen: set[int] = set()
    for number in range(60):
        head = live.state(v=f"v{number}", relation="tag:n")["position"]
        time.sleep(0.02)
        seen |= set(positions(live))
    until(lambda: head - max(positions(live)) < 10 and len(positions(live)) == 3)
    left = positions(live)
    assert left[-1] == asked
    assert len(seen) > 3, "older ones were there and made room"
    assert left[0] - left[1] >= 10
    told = ask(live, "GET", PATH).json()
    assert (told["every_events"], told["keep"], told["error"]) == (10, 2, None)
    assert [each["automatic"] for each in told["snapshots"]] == [True, True, False]


def test_a_rebuild_reports_its_start_speed_and_skipped_snapshots(
    live: LiveNode,
) -> None:
    for number in range(30):
        live.state(v=f"v{number}", relation="tag:n")
    old = taken(live)["position"]
    new = live.state(v="new")["position"]
    taken(live)
    live.node.snapshots.path(new).write_bytes(b"")
    head = live.state(v="newer")["position"]
    assert ask(live, "POST", "/v1/admin/rebuild").status_code == 202
    job = finished(live, "/v1/admin/rebuild")
    report = job["result"]
    assert (report["snapshot"], report["events"], report["compared"]) == (old, head - old, True)
    assert report["passed_over"] == [
        {"position": new, "reason": "its file is not as it was written"}
    ]
    assert (job["events"], job["events_total"]) == (head - old, head - old)
    assert job["events_per_s"] > 0
    assert job["left_s"] is None  # it is over
    ask(live, "POST", "/v1/admin/rebuild", json={"from_scratch": True})
    report = finished(live, "/v1/admin/rebuild")["result"]
    assert (report["snapshot"], report["events"], report["passed_over"]) == (0, head, [])


def test_a_running_rebuild_tells_its_rate_and_the_time_left(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        live.state(v=f"v{number}", relation="tag:n")
    seen: list[dict[str, Any]] = []
    rebuild = live.node.rebuild

    def watched(progress: Callable[[int, int], None], **given: Any) -> object:
        def count(done: int, total: int) -> None:
            progress(done, total)
            time.sleep(0.01)
            seen.append(ask(live, "GET", "/v1/admin/rebuild").json())

        return rebuild(count, **given)

    monkeypatch.setattr("engramlog.replay.rebuild.PAGE_EVENTS", 10)
    monkeypatch.setattr(live.node, "rebuild", watched)
    ask(live, "POST", "/v1/admin/rebuild")
    finished(live, "/v1/admin/rebuild")
    assert (seen[0]["events"], seen[0]["events_per_s"], seen[0]["left_s"]) == (0, None, None)
    del seen[0]
    assert len(seen) >= 4
    head = live.node.log.head().position
    for each in seen:
        assert each["status"] == "running"
        assert each["events_total"] == head
        rate, left = each["events_per_s"], head - each["events"]
        assert rate > 0
        assert each["left_s"] == pytest.approx(left / rate, rel=0.2, abs=0.06)
    assert seen[0]["left_s"] > 0 == seen[-1]["left_s"]
