"""The position that a node names is one that its readers see."""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from engramlog.eventlog.event import Recorded
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.moment import format_instant
from engramlog.replay.replication.follower import FollowerStatus
from engramlog.replay.replication.state import ReplicaState
from tests.worlds.live import LiveNode, fact
from tests.worlds.waiting import until


@contextmanager
def unpublished(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> Generator[int]:
    """A write that the log has and readers do not see yet; its position."""
    go_on = threading.Event()
    apply = MemoryImage.apply

    def held(self: MemoryImage, events: Sequence[Recorded], position: int) -> None:
        assert go_on.wait(60)
        apply(self, events, position)

    monkeypatch.setattr(MemoryImage, "apply", held)
    before = live.node.log.head().position
    body = fact(v="late")
    writing = threading.Thread(target=live.http.request, args=("POST", "/v1/facts"),
                               kwargs={"json": body})  # fmt: skip
    writing.start()
    try:
        until(lambda: live.node.log.head().position > before)
        yield live.node.log.head().position
    finally:
        go_on.set()
        writing.join()


def test_readyz_names_no_position_before_its_readers_see_it(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = serve()
    live.state(v="first")
    seen = live.call("GET", "/readyz").json()["position"]
    with unpublished(live, monkeypatch) as position:
        assert live.call("GET", "/readyz").json()["position"] == seen < position
    until(lambda: live.call("GET", "/readyz").json()["position"] == position)


def test_a_replica_lags_until_its_readers_see_what_it_copied(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = serve()
    live.state(v="first")
    with unpublished(live, monkeypatch) as position:
        follows = FollowerStatus(True, position, 0, 0, 1, 1, None, None)
        live.node.replica = ReplicaState("http://127.0.0.1:9", "stigmem:node:primary", "")
        monkeypatch.setattr(live.node, "follower", type("Follower", (), {"status": follows}))
        shown = live.call("GET", "/readyz").json()
        assert shown["replica"]["lag"] == position - shown["position"] > 0
        live.node.replica = None


@pytest.mark.parametrize(
    ("method", "path", "writer"),
    [
        ("GET", "/v1/facts", "this node"),
        ("GET", "/v1/facts", "another node over the log"),
        ("GET", "/v1/time-travel/diff", "this node"),
        ("POST", "/v1/recall", "this node"),
    ],
)
def test_a_question_about_an_instant_waits_for_what_was_received_by_then(
    serve: Callable[..., LiveNode],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    writer: str,
) -> None:
    """Else the same question has another answer a moment later."""
    live, answers = serve(), list[Any]()
    if writer != "this node":
        monkeypatch.setattr(type(live.node), "begun_us", None)
    live.state(v="first", relation="memory:other")

    def ask(instant: str) -> None:
        asked = {"as_of": instant}
        if path.endswith("diff"):
            asked = {"from": "position:0", "to": instant}
        if method == "POST":
            answers.append(
                live.call(method, path, json={"query": "late", "scope": "company", **asked})
            )
        else:
            answers.append(live.call(method, path, params=asked))

    with unpublished(live, monkeypatch):
        asking = threading.Thread(target=ask, args=(format_instant(time.time_ns() // 1000),))
        asking.start()
        asking.join(0.3)
    asking.join(60)
    assert answers[0].status_code == 200
    assert '"v":"late"' in answers[0].text


def test_a_job_about_an_instant_waits_too(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = serve(job_facts_min=0)
    live.state(v="first", relation="memory:other")
    with unpublished(live, monkeypatch):
        body = {"scope": "company", "as_of": format_instant(time.time_ns() // 1000)}
        job = f"/v1/lint/jobs/{live.call('POST', '/v1/lint', json=body).json()['job_id']}"
        until(lambda: live.call("GET", job).json()["status"] != "pending")
    until(lambda: live.call("GET", job).json()["status"] in ("done", "error"))
    assert live.call("GET", job).json()["result"]["fact_count"] == 2
