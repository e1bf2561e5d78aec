"""Access of web pages to a node: their own origin's, allowed ones, and no others."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from engramlog.api.settings_sources import SettingsError, load_settings
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

ELSEWHERE = "https://evil.example"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveNode]:
    node = LiveNode(tmp_path_factory.mktemp("node"), allowed_hosts="memory.internal")
    yield node
    node.close()


@pytest.fixture(scope="module")
def open_to_pages(tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveNode]:
    node = LiveNode(
        tmp_path_factory.mktemp("node"),
        auth_required=True,
        cors_allowed_origins="https://a.example,https://B.example/",
        cors_allowed_origin_regex=r"https://[a-z]+\.team\.example",
        cors_dev_localhost=True,
    )
    yield node
    node.close()


def code_of(answer: Any) -> str:
    return answer.json()["detail"]["code"]


@pytest.mark.parametrize("origin", [ELSEWHERE, "null", "http://127.0.0.1:1", "http://["])
def test_a_page_elsewhere_neither_reads_nor_writes(live: LiveNode, origin: str) -> None:
    body = fact(entity="user:page")
    for method, path in (("GET", "/v1/facts"), ("GET", "/healthz"), ("POST", "/v1/facts")):
        answer = live.call(method, path, headers={"Origin": origin}, json=body)
        assert (answer.status_code, code_of(answer)) == (403, "origin_forbidden")
    assert live.call("GET", "/v1/facts?entity=user:page").json()["total"] == 0


def test_the_nodes_own_page_may_write(live: LiveNode) -> None:
    answer = live.call(
        "POST", "/v1/facts", json=fact(entity="user:own"), headers={"Origin": live.url}
    )
    assert answer.status_code == 201
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("node_url", "origin", "status"),
    [
        ("https://memory.example", "https://memory.example", 201),
        ("https://memory.example/", "https://memory.example:443", 201),
        ("https://memory.example", "http://memory.example", 403),
        ("https://memory.example:8443", "https://memory.example", 403),
        ("", "null", 403),
    ],
)
def test_the_nodes_own_page_may_write_through_a_proxy_that_names_another_host(
    tmp_path: Path, node_url: str, origin: str, status: int
) -> None:
    with closing(LiveNode(tmp_path / "node", auth_required=True, node_url=node_url)) as node:
        headers = {"Origin": origin, "Host": "127.0.0.1:8765"}
        answer = node.call("POST", "/v1/facts", json=fact(), headers=headers, key=CONTROL_TOKEN)
        assert answer.status_code == status


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "["])
def test_a_name_that_now_points_here_is_refused_without_authentication(
    live: LiveNode, host: str
) -> None:
    answer = live.call("GET", "/v1/facts", headers={"Host": host})
    assert (answer.status_code, code_of(answer)) == (403, "host_forbidden")


@pytest.mark.parametrize(
    "host", ["localhost:1", "127.0.0.1", "[::1]:8765", "LOCALHOST", "memory.internal:80"]
)
def test_loopback_names_and_named_hosts_have_access(live: LiveNode, host: str) -> None:
    assert live.call("GET", "/healthz", headers={"Host": host}).status_code == 200


def test_with_keys_any_host_has_access(open_to_pages: LiveNode) -> None:
    answer = open_to_pages.call("GET", "/healthz", headers={"Host": "node.example"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "declared", ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""]
)
def test_a_body_sent_without_a_preflight_is_refused(live: LiveNode, declared: str) -> None:
    entity = f"user:{len(declared)}"
    body = encode(fact(entity=entity))
    headers = {"Content-Type": declared}
    answer = live.call("POST", "/v1/facts", content=body, headers=headers)
    assert (answer.status_code, code_of(answer)) == (415, "unsupported_media_type")
    assert answer.headers["X-Error-Code"] == "unsupported_media_type"
    assert live.call("GET", f"/v1/facts?entity={entity}&scope=company").json()["total"] == 0
    with_key = live.call(
        "POST", "/v1/facts", content=body, headers=headers, key=live.key_of("page")
    )
    assert with_key.status_code == 201, "the key alone makes a browser ask first"


@pytest.mark.parametrize(
    "origin",
    [
        "https://a.example",
        "https://b.example",
        "https://x.team.example",
        "http://localhost:5173",
        "http://127.0.0.1:54321",
    ],
)
def test_allowed_pages_send_a_preflight_and_read_the_answer(
    open_to_pages: LiveNode, origin: str
) -> None:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    preflight = open_to_pages.call("OPTIONS", "/v1/me", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == origin
    assert "GET" in preflight.headers["Access-Control-Allow-Methods"]
    assert preflight.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
    assert preflight.headers["Access-Control-Max-Age"] == "600"
    key = open_to_pages.key_of("page")
    for path, status in (("/v1/me", 200), ("/v1/facts?scope=nope", 400), ("/v1/nothing", 404)):
        answer = open_to_pages.call("GET", path, key=key, headers={"Origin": origin})
        assert answer.status_code == status
        assert answer.headers["Access-Control-Allow-Origin"] == origin


@pytest.mark.parametrize("origin", [ELSEWHERE, "https://a.example.evil", "https://localhost.evil"])
def test_others_get_no_permission(open_to_pages: LiveNode, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    preflight = open_to_pages.call("OPTIONS", "/v1/me", headers=asked)
    assert "Access-Control-Allow-Origin" not in preflight.headers


def test_discovery_lists_the_allowed_origins(live: LiveNode, open_to_pages: LiveNode) -> None:
    path = "/.well-known/stigmem"
    assert live.call("GET", path).json()["cors"] == {"dev_localhost": False, "configured": False}
    assert open_to_pages.call("GET", path).json()["cors"] == {
        "dev_localhost": True,
        "configured": True,
    }


def test_options_names_every_method_of_every_route(live: LiveNode) -> None:
    answer = live.call("OPTIONS", "/v1/facts")
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS, POST, PUT"
    assert live.call("OPTIONS", "/v1/nothing").status_code == 404


def test_a_bad_pattern_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a regular expression"):
        load_settings({"data_dir": tmp_path, "cors_allowed_origin_regex": "("})


def test_an_instant_whose_plus_became_a_space_is_read_as_plus(live: LiveNode) -> None:
    made = live.state(entity="user:plus")["timestamp"]
    for name in ("as_of", "after"):
        exact = live.call("GET", f"/v1/facts?{name}={made.replace('+', '%2B')}").json()
        meant = live.call("GET", f"/v1/facts?{name}={made}").json()
        assert meant["total"] == exact["total"]


@pytest.mark.parametrize("depth", [101, 600, 5_000])
def test_deep_nesting_is_refused(live: LiveNode, depth: int) -> None:
    for opening, ending in (("[", "]"), ('{"a":', "}")):
        body = opening * depth + "1" + ending * depth
        answer = live.call("POST", "/v1/facts", content=body.encode())
        assert (answer.status_code, code_of(answer)) == (400, "malformed_json")


def test_a_body_that_is_not_an_object_is_refused(live: LiveNode) -> None:
    answer = live.call(
        "POST", "/v1/federation/peers/nobody/revoke", key=CONTROL_TOKEN, content=b"[1]"
    )
    assert answer.status_code == 422
