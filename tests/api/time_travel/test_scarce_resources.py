"""Requests for which DuckDB lacks memory or room for files: 503, as for other limits of the
process and of storage."""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from engramlog.projections.archive import duck
from tests.worlds.live import CONTROL_TOKEN, LiveNode

SQL = "/v1/time-travel/sql"


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Databases of this process get no memory to work with."""
    connect = duckdb.connect

    def connected(*args: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        db = connect(*args, **options)
        db.execute("SET memory_limit='64KiB'")
        return db

    monkeypatch.setattr(duckdb, "connect", connected)
    duck._shared.cache_clear()
    yield
    duck._shared.cache_clear()


@pytest.mark.usefixtures("scarce")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SQL, {"sql": "SELECT count(*) FROM events"}),
        ("GET", "/v1/log?kind=fact_asserted", None),
        ("GET", "/v1/time-travel/entities/user:alice", None),
    ],
)
def test_a_database_without_memory_is_a_limit_of_the_process(
    live: LiveNode, method: str, path: str, body: Any
) -> None:
    live.state(entity="user:alice", key=CONTROL_TOKEN)
    options = {} if body is None else {"json": body}
    answer = live.call(method, path, key=CONTROL_TOKEN, **options)
    assert (answer.status_code, answer.json()["detail"]["code"]) == (503, "degraded")
    assert "limit of its process: Out of Memory" in answer.json()["detail"]["message"]
    assert live.call("GET", "/v1/facts", key=CONTROL_TOKEN).json()["total"] == 1


def test_a_library_that_does_not_load_is_no_fault_of_the_request(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as if it could not be mapped
    answer = live.call("POST", SQL, key=CONTROL_TOKEN, json={"sql": "SELECT 1"})
    assert (answer.status_code, answer.json()["detail"]["code"]) == (503, "degraded")
    assert answer.json()["detail"]["message"] == "the node cannot load duckdb"


def test_a_parquet_file_without_room_to_be_made_is_refused(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.state(entity="user:alice")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    answer = live.call("GET", "/v1/time-travel/entities/user:alice?format=parquet")
    assert (answer.status_code, answer.json()["detail"]["code"]) == (503, "storage_failed")
    assert "nowhere" not in answer.text
