"""The node's own routes: discovery, health, metrics, rebuild, description and docs."""

import re
from html.parser import HTMLParser
from importlib import import_module
from importlib.metadata import version
from pkgutil import walk_packages
from typing import Any

import pytest
from msgspec import convert
from stigmem import StigmemClient

import engramlog.api.routes
from engramlog.api.http.openapi import openapi_path
from engramlog.api.node.tasks.jobs import Rebuild
from engramlog.api.routes.node.doctor import DoctorReport
from engramlog.api.routes.node.system import Me, NodeInfo, Ready
from engramlog.api.routes.table import ROUTES
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until


def test_discovery_satisfies_the_sdk(live: LiveNode) -> None:
    convert(live.call("GET", "/.well-known/stigmem").json(), NodeInfo)
    with StigmemClient(live.url) as client:
        info = client.node_info()
    assert (info.auth, info.federation) == ("none", "disabled")
    assert info.node_id.startswith("stigmem:node:")


@pytest.mark.parametrize("path", ["/healthz", "/v1/health"])
def test_a_healthy_node_says_ok(live: LiveNode, path: str) -> None:
    assert live.call("GET", path).json() == {"status": "ok"}
    assert live.call("HEAD", path).status_code == 200


def test_who_asks_and_how_the_node_is_have_their_published_shapes(live: LiveNode) -> None:
    convert(live.call("GET", "/v1/me").json(), Me)
    convert(live.call("GET", "/v1/doctor").json(), DoctorReport)
    assert live.call("GET", "/v1/federation/peers").json() == {"peers": []}


def test_ready_tells_position_and_projections_and_fails_when_degraded(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = live.call("GET", "/readyz")
    assert ready.status_code == 200
    convert(ready.json(), Ready)
    assert ready.json()["embedding"] == {
        "provider": "none",
        "model": None,
        "dimensions": None,
        "lag": 0,
        "error": None,
    }
    monkeypatch.setattr(live.node.writer, "degraded", "projections are behind the log: test")
    monkeypatch.setattr(live.node.writer, "broken", "not tried again")
    answer = live.call("GET", "/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "degraded")
    assert answer.json()["reason"].startswith("projections are behind")
    assert live.call("GET", "/v1/doctor").json()["status"] == "degraded"


def test_metrics_count_requests_by_route_and_never_by_name(live: LiveNode) -> None:
    record = live.state()
    live.call("GET", f"/v1/facts/{record['id']}")
    live.call("GET", "/nowhere/secret")
    text = live.call("GET", "/metrics").text
    assert 'route="/v1/facts/{fact_id}",method="GET",status="200"} 1' in text
    assert 'route="unmatched",method="GET",status="404"} 1' in text
    assert re.search(r"^engramlog_log_position \d+$", text, re.MULTILINE)
    assert 'engramlog_projection_lag{projection="facts"} 0' in text
    assert "secret" not in text
    assert record["id"] not in text
    buckets = re.findall(r'seconds_bucket\{route="/v1/facts",le="[^"]+"\} (\d+)', text)
    assert buckets == sorted(buckets, key=int)


_SAMPLE = re.compile(r"^([a-z_]+)(?:\{.*\})? (\S+)$")


def test_metrics_have_the_type_that_their_name_says(live: LiveNode) -> None:
    live.call("GET", "/healthz")
    lines = live.call("GET", "/metrics").text.splitlines()
    types = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    assert types["engramlog_writer_commands_total"] == "counter"
    for name, kind in types.items():
        assert (kind == "counter") == name.endswith("_total"), name
    for line in lines:
        if not line.startswith("#"):
            found = _SAMPLE.match(line)
            assert found is not None, line
            float(found[2])
            name = re.sub(r"_(bucket|sum|count)$", "", found[1])
            assert name in types or found[1] in types, line


def test_metrics_show_the_release_and_the_process(live: LiveNode) -> None:
    text = live.call("GET", "/metrics").text
    assert f'engramlog_build_info{{version="{version("engramlog")}",python="' in text
    numbers = dict(line.split() for line in text.splitlines() if line.startswith("process_"))
    assert float(numbers["process_resident_memory_bytes"]) > 1e6
    assert 0 < float(numbers["process_open_fds"]) < float(numbers["process_max_fds"])
    assert float(numbers["process_cpu_seconds_total"]) > 0
    assert float(numbers["process_start_time_seconds"]) > 1e9


def test_the_protocols_dashboards_find_their_names(live: LiveNode) -> None:
    live.state()
    for path in ("/v1/facts", "/v1/facts?limit=1"):
        live.call("GET", path)
    live.call("POST", "/v1/recall", json={"query": "CEO", "scope": "company"})
    live.call("POST", "/v1/recall", json={})
    text = live.call("GET", "/metrics").text
    for line in (
        'stigmem_fact_write_total{tenant="default"} 1',
        'stigmem_fact_read_total{tenant="default"} 3',
        'stigmem_recall_ranker_duration_seconds_count{tenant="default"} 1',
        'stigmem_request_latency_seconds_count{route="/v1/facts",method="GET",status_code="200"} 2',
        'stigmem_quota_breach_total{tenant="default",dimension="fact_read"} 0',
        'stigmem_subscription_connections_active{tenant="default"} 0',
    ):
        assert line in text.splitlines(), line


def test_a_rebuild_runs_in_the_background(live: LiveNode) -> None:
    record = live.state()
    assert live.call("GET", "/v1/admin/rebuild", key=CONTROL_TOKEN).json()["status"] == "idle"
    started = live.call("POST", "/v1/admin/rebuild", key=CONTROL_TOKEN)
    assert started.status_code == 202

    def rebuild() -> dict[str, Any]:
        return live.call("GET", "/v1/admin/rebuild", key=CONTROL_TOKEN).json()

    until(lambda: rebuild()["status"] != "running")
    status = rebuild()
    convert(status, Rebuild)
    assert status["status"] == "done", status
    assert live.call("GET", f"/v1/facts/{record['id']}").json()["id"] == record["id"]
    live.state(v="after")


# -- description ----------------------------------------------------------------------------


def test_the_description_lists_exactly_the_routers_routes(live: LiveNode) -> None:
    served = {
        (route.method, openapi_path(route.resource.canonical))
        for route in live.app.router.routes()
        if route.method != "HEAD" and route.resource is not None
    }
    paths = live.call("GET", "/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert described == served == {(route.method, openapi_path(route.path)) for route in ROUTES}


def test_every_file_of_routes_is_in_the_table() -> None:
    files = walk_packages(engramlog.api.routes.__path__, "engramlog.api.routes.")
    rows = [getattr(import_module(file.name), "routes", None) for file in files]
    written = [row for each in rows if each is not None for row in each.rows]
    assert len(written) == len(ROUTES)
    assert all(row in ROUTES for row in written)


def test_every_reference_of_the_description_resolves(live: LiveNode) -> None:
    answer = live.call("GET", "/openapi.json")
    document = answer.json()
    schemas = document["components"]["schemas"]
    names = re.findall(r'"#/components/schemas/([^"]+)"', answer.text)
    assert names
    assert set(names) <= set(schemas)
    assert "#/$defs" not in answer.text
    ids = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    assert len(ids) == len(set(ids))


def test_every_route_shows_its_purpose_and_permission(live: LiveNode) -> None:
    for route in ROUTES:
        assert route.summary
        assert route.handler.__doc__, route.path
        assert route.permission


def test_gardens_are_listed_in_a_thread() -> None:
    """Thousands of them would keep other requests waiting."""
    whole = {"gardens", "members"}
    rows = [row for row in ROUTES if row.method == "GET" and row.path.rpartition("/")[2] in whole]
    assert len(rows) == len(whole)
    assert not [row.path for row in rows if row.is_async]


class _Outside(HTMLParser):
    """Collects everything a page would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "srcset", "data") or (tag == "link" and name == "href"):
                self.found.append(f"{tag} {value}")


def test_the_docs_page_needs_nothing_from_elsewhere(live: LiveNode) -> None:
    answer = live.call("GET", "/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    page = _Outside()
    page.feed(answer.text)
    assert page.found == []
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    assert "/openapi.json" in answer.text
