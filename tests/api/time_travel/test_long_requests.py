"""Long requests delay no other reads, and are refused if too many wait."""

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.fair_threads import WAITING_EACH_MAX
from engramlog.api.routes.time_travel import log
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.audit.statement_task import Table
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

ASKED = WAITING_EACH_MAX + 1


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveNode]:
    node = LiveNode(tmp_path / "data")
    try:
        yield node
    finally:
        node.close()


def sql(live: LiveNode) -> Any:
    body = {"sql": "SELECT 1"}
    return live.call("POST", "/v1/time-travel/sql", key=CONTROL_TOKEN, json=body)


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch, live: LiveNode) -> Generator[list[Future[Any]]]:
    """As many statements as one caller may ask at once; none ends before the block does."""
    go = threading.Event()

    def ask(*_: object, **__: object) -> Table:
        go.wait(30)
        return Table(["n"], ["INTEGER"], [[1]])

    monkeypatch.setattr(AuditDesk, "ask", ask)
    with ThreadPoolExecutor(ASKED) as clients:
        try:
            asked = [clients.submit(sql, live) for _ in range(ASKED)]
            until(lambda: live.service().statements.waiting == WAITING_EACH_MAX)
            yield asked
        finally:
            go.set()


def test_slow_statements_keep_no_other_caller_waiting(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.state()
    with statements(monkeypatch, live) as asked:
        refused = sql(live)
        assert refused.status_code == 503
        assert refused.json()["detail"]["code"] == "long_work_busy"
        assert int(refused.headers["Retry-After"]) >= 1
        assert live.call("GET", "/v1/facts").status_code == 200
        assert live.call("POST", "/v1/recall", json={"query": "tea"}).status_code == 200
        # Other long requests have their own threads.
        for path in ("/v1/export", "/v1/scopes/company/synthesize", "/v1/log", "/v1/doctor"):
            assert live.call("GET", path).status_code == 200, path
        assert not any(each.done() for each in asked)
    assert {each.result().status_code for each in asked} == {200}


def test_long_requests_leave_the_readers_free(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def slow(*_: object) -> tuple[list[int], list[int]]:
        go.wait(30)
        return [], []

    monkeypatch.setattr(log, "timeline", slow)
    with ThreadPoolExecutor(6) as clients:
        path = "/v1/time-travel/timeline"
        asked = [clients.submit(live.call, "GET", path) for _ in range(6)]
        until(lambda: live.service().long.waiting == 4)
        assert live.call("GET", "/v1/facts").status_code == 200
        go.set()
    assert {each.result().status_code for each in asked} == {200}
