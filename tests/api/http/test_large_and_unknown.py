"""Large bodies as gzip, and parameters that nothing reads."""

import gzip
import json
import urllib.request

import pytest

from engramlog.api.http.compression import takes_gzip
from tests.worlds.live import LiveNode, fact


def test_large_bodies_are_compressed_for_clients_that_accept_it(live: LiveNode) -> None:
    request = urllib.request.Request(
        f"{live.url}/openapi.json", headers={"Accept-Encoding": "gzip"}
    )
    with urllib.request.urlopen(request) as answer:
        data = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert int(answer.headers["Content-Length"]) == len(data)
    with urllib.request.urlopen(f"{live.url}/openapi.json") as answer:
        plain = answer.read()
        assert answer.headers["Content-Encoding"] is None
    assert json.loads(gzip.decompress(data)) == json.loads(plain)
    assert len(data) * 5 < len(plain)
    small = urllib.request.Request(f"{live.url}/healthz", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(small) as answer:
        assert answer.headers["Content-Encoding"] is None


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("*", True), ("", False), ("gzip;q=0, br", False)],
)
def test_which_headers_accept_gzip(accepted: str, taken: bool) -> None:
    assert takes_gzip(accepted) is taken


def test_unknown_parameters_are_named_with_a_suggestion(live: LiveNode) -> None:
    made = live.state()
    answer = live.call("GET", "/v1/facts", params={"entitty": "user:x"})
    (warning,) = answer.json()["warnings"]
    assert warning == "unknown field 'entitty' is ignored; did you mean 'entity'?"
    assert answer.headers["X-Stigmem-Warning"] == warning
    one = live.call("GET", f"/v1/facts/{made['id']}", params={"asof": "position:1", "zzz": ""})
    assert one.headers["X-Stigmem-Warning"] == (
        "unknown field 'asof' is ignored; did you mean 'as_of'? | unknown field 'zzz' is ignored"
    )
    assert "X-Stigmem-Warning" not in live.call("GET", "/v1/facts?entity=user:x").headers
    odd = live.call("GET", "/readyz", params={"ünï\r\ncode": "1"})
    assert odd.headers["X-Stigmem-Warning"].isascii()


def test_a_route_that_ignores_an_idempotency_key_says_so(live: LiveNode) -> None:
    """A client that trusts the key would record the episode twice."""
    key = {"Idempotency-Key": "once"}
    episode = {"user": "ann", "session": "s", "agent": "a", "content": "hello"}
    for _ in range(2):
        answer = live.call("POST", "/v1/episodes", json=episode, headers=key)
        assert answer.status_code == 201
        assert answer.headers["X-Stigmem-Warning"] == (
            "Idempotency-Key is ignored: a repetition may write again"
        )
    assert "X-Stigmem-Warning" not in live.call("GET", "/v1/facts", headers=key).headers
    stated = live.call("POST", "/v1/facts", json=fact(), headers=key)
    assert "X-Stigmem-Warning" not in stated.headers


def test_many_unknown_fields_are_named_in_part(live: LiveNode) -> None:
    """A suggestion for each of 100,000 names would stop the node for seconds."""
    unknown = {f"{'x' * 70}{n}": n for n in range(25)}
    answer = live.call("POST", "/v1/facts", json=fact(**unknown)).json()
    named = f"unknown field {'x' * 60!r} is ignored"
    assert answer["warnings"] == [*[named] * 20, "5 more unknown fields are ignored"]


def test_a_path_of_more_parts_than_any_name_has_is_not_looked_up(live: LiveNode) -> None:
    """The router looks at each part: 8,000 would stop the node for 30 ms."""
    name = "a/" * 1_000
    known = live.call("GET", f"/v1/cards/{name}")
    assert (known.status_code, known.json()["detail"]) == (404, "no facts found for entity")
    unknown = live.call("GET", f"/v1/cards/{name * 3}")
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "Not Found")
