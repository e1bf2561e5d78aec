"""Refusals: their status, and the field that they name."""

import errno
import json
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engramlog.api.http import call
from engramlog.api.http.bodies import parse_body
from engramlog.api.routes.table import ROUTES
from engramlog.eventlog.errors import StorageFailed, StorageFull
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

LONG = "x" * 2049


def without(name: str) -> dict[str, Any]:
    body = fact()
    del body[name]
    return body


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (without("entity"), ["entity"]),
        (without("relation"), ["relation"]),
        (without("value"), ["value"]),
        (without("source"), ["source"]),
        (fact(entity=""), ["entity"]),
        (fact(entity=LONG), ["entity"]),
        (fact(entity=7), ["entity"]),
        (fact(entity="a\x01b"), ["entity"]),
        (fact(relation=""), ["relation"]),
        (fact(relation=LONG), ["relation"]),
        (fact(source=LONG), ["source"]),
        (fact(confidence=1.01), ["confidence"]),
        (fact(confidence=-0.1), ["confidence"]),
        (fact(confidence="1"), ["confidence"]),
        (fact(confidence=True), ["confidence"]),
        (fact(scope="galaxy"), ["scope"]),
        (fact(value="CEO"), ["value"]),
        (fact(value={"v": "x"}), ["value", "type"]),
        (fact(type="colour"), ["value", "type"]),
        (fact(v=5), ["value", "v"]),
        (fact(v=None), ["value", "v"]),
        (fact(type="number", v="42"), ["value", "v"]),
        (fact(type="number", v=True), ["value", "v"]),
        (fact(type="number", v=10**400), ["value", "v"]),
        (fact(type="boolean", v="yes"), ["value", "v"]),
        (fact(type="boolean", v=1), ["value", "v"]),
        (fact(type="datetime", v="yesterday"), ["value", "v"]),
        (fact(type="datetime", v="2026-02-30T00:00:00Z"), ["value", "v"]),
        (fact(type="datetime", v="2026-01-01T00:00:00"), ["value", "v"]),
        (fact(type="ref", v="alice"), ["value", "v"]),
        (fact(type="ref", v="stigmem://t//x"), ["value", "v"]),
        (fact(value={"type": "null", "v": "x"}), ["value", "v"]),
        (fact(interpret_as="order"), ["value", "interpret_as"]),
        (fact(valid_until="soon"), ["valid_until"]),
        (fact(valid_until="2026-13-01"), ["valid_until"]),
        (fact(valid_from="2026-13-01T00:00:00Z"), ["valid_from"]),
        (fact(write_mode="shout"), ["write_mode"]),
        (fact(derived_from="x"), ["derived_from"]),
        (fact(derived_from=["xyz"]), ["derived_from"]),
        (fact(derived_from=[{"fact_id": "x"}]), ["derived_from"]),
        (fact(derived_from=[{"hash": "A" * 64}]), ["derived_from"]),
        (fact(derived_from=[{"hash": "a" * 64, "fact_id": 5}]), ["derived_from"]),
        (fact(derived_from=[{"hash": "a" * 64, "fact_id": "x" * 1000}]), ["derived_from"]),
    ],
)
def test_a_wrong_field_is_422_and_named(
    refusing: LiveNode, body: dict[str, Any], where: list[str]
) -> None:
    answer = refusing.call("POST", "/v1/facts", json=body)
    assert answer.status_code == 422, answer.text
    entries = answer.json()["detail"]
    assert [entry["loc"] for entry in entries] == [["body", *where]]
    assert set(entries[0]) >= {"type", "loc", "msg", "input"}
    assert refusing.node.log.head().position == 1


def test_all_missing_fields_are_named_at_once(live: LiveNode) -> None:
    answer = live.call("POST", "/v1/facts", json={"entity": "user:a"})
    assert answer.json() == {
        "detail": [
            {
                "type": "missing",
                "loc": ["body", name],
                "msg": "Field required",
                "input": {"entity": "user:a"},
            }
            for name in ("relation", "value", "source")
        ]
    }


def test_validity_must_not_be_empty(live: LiveNode) -> None:
    body = fact(valid_from="2026-01-02T00:00:00Z", valid_until="2026-01-01T23:00:00-01:00")
    answer = live.call("POST", "/v1/facts", json=body)
    assert answer.status_code == 422
    assert "valid_from" in answer.json()["detail"][0]["msg"]


def test_instants_are_echoed_verbatim(live: LiveNode) -> None:
    record = live.state(valid_from="2020-01-31T12:00:00+02:00", valid_until="2099-01-31T12:00:00Z")
    assert record["valid_from"] == "2020-01-31T12:00:00+02:00"
    assert record["valid_until"] == "2099-01-31T12:00:00Z"


@pytest.mark.parametrize("entity", ["   ", "stigmem://a//b", "stigmem://a"])
def test_a_malformed_entity_is_400(live: LiveNode, entity: str) -> None:
    answer = live.call("POST", "/v1/facts", json=fact(entity=entity))
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("invalid_entity_uri: ")


@pytest.mark.parametrize(
    "data",
    [
        b"{", b"nope", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":1e999}',
        b'{"a":"\\ud800"}', b'{"a":"\\u0000"}', b'{"a\\u0000":1}', b'{"a":"\xff"}', b'{"a":1}}',
        b"\xef\xbb\xbf{}", b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_body_that_is_not_json_is_400(refusing: LiveNode, data: bytes) -> None:
    answer = refusing.call("POST", "/v1/facts", content=data)
    assert answer.status_code == 400, answer.text
    assert answer.json()["detail"]["code"] == "malformed_json"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/facts", [1], "must be a JSON object"),
        ("/v1/facts", {**fact(), "value": "tea"},
         'must be typed, such as {"type": "string", "v": "green tea"}'),
        ("/v1/facts", {**fact(), "entity": 5}, "must be a string"),
        ("/v1/facts", {**fact(), "entity": ""}, "must not be empty"),
        ("/v1/facts", {**fact(), "confidence": 2}, "must be at most 1.0"),
        ("/v1/facts", {**fact(), "derived_from": {}}, "must be an array"),
        ("/v1/facts", fact(type="number", v="42"), "must be a number"),
        ("/v1/recall", {"query": "x", "limit": 1.5}, "must be a whole number"),
        ("/v1/recall", {"query": "x", "explain": "perhaps"}, "must be true or false"),
        ("/v1/recall", {"query": "x", "include_neighbors": "perhaps"}, "must be true or false"),
        ("/v1/subscriptions", {"target": "company", "on_change": "x", "delivery_address": "a:b"},
         "must be 'webhook' or 'wake'"),
        ("/v1/memories", {"content": "x", "owner": "y"}, "no such field"),
    ],
)  # fmt: skip
def test_errors_name_no_python_types(
    refusing: LiveNode, path: str, body: object, told: str
) -> None:
    answer = refusing.call("POST", path, json=body)
    assert answer.status_code == 422, answer.text
    (entry,) = answer.json()["detail"]
    assert entry["msg"] == told


@pytest.mark.parametrize(("data", "kind"), [(b"", "missing"), (b"[1]", "model_type")])
def test_a_body_that_is_no_object_is_422(live: LiveNode, data: bytes, kind: str) -> None:
    answer = live.call("POST", "/v1/facts", content=data)
    assert answer.status_code == 422
    entry = answer.json()["detail"][0]
    assert (entry["loc"], entry["type"]) == (["body"], kind)


def test_numbers_beyond_64_bits_can_be_echoed(live: LiveNode) -> None:
    body = json.dumps(fact(confidence=0)).replace('"confidence": 0', '"confidence": 1' + "0" * 40)
    assert live.call("POST", "/v1/facts", content=body.encode()).status_code == 422


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 10**30])
def test_no_number_in_a_query_is_too_large_for_an_answer(refusing: LiveNode, number: int) -> None:
    asked = 0
    for row in (each for each in ROUTES if each.method == "GET" and each.query is not None):
        assert row.query is not None
        for name, field in row.query.model_fields.items():
            if re.search(r"\bint\b", repr(field.annotation)):
                path = re.sub(r"\{[^}]*\}", "x", row.path)
                key = CONTROL_TOKEN
                answer = refusing.call(row.method, path, key=key, params={name: number})
                assert answer.status_code < 500, (row.path, name, answer.text)
                asked += 1
    assert asked > 30


def test_limits_of_size_are_413(serve: Callable[..., LiveNode]) -> None:
    live = serve(value_bytes_max=1000, request_body_bytes_max=5000, batch_body_bytes_max=9000)
    assert live.call("POST", "/v1/facts", json=fact(v="é" * 500)).status_code == 201
    value = live.call("POST", "/v1/facts", json=fact(v="é" * 501))
    assert (value.status_code, value.json()["detail"]["code"]) == (413, "value_too_large")
    body = live.call("POST", "/v1/facts", json=fact(v="x" * 6000))
    assert (body.status_code, body.json()["max_request_body_bytes"]) == (413, 5000)

    def chunks() -> Any:
        yield from [b" " * 1000] * 8

    chunked = live.call("POST", "/v1/facts", content=chunks())
    assert chunked.status_code == 413
    batch = [fact(relation=f"memory:r{n}") for n in range(30)]
    assert live.call("POST", "/v1/facts/batch", json=batch).status_code == 200
    batch = live.call("POST", "/v1/facts/batch", json=[fact(v="x" * 900)] * 10)
    assert (batch.status_code, batch.json()["max_request_body_bytes"]) == (413, 9000)


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (b"[" + b"[]," * 1_000_000 + b"[]]", "application/json"),
        (b"[" + b"1," * 1_000_000 + b"1]", "application/json"),
        (b"\n" * 1_000_001, "application/x-ndjson"),
    ],
)
def test_a_batch_of_countless_values_is_not_decoded(
    live: LiveNode, data: bytes, media: str
) -> None:
    """The largest body may hold 30 million, which take gigabytes."""
    answer = live.call("POST", "/v1/facts/batch", content=data, headers={"Content-Type": media})
    assert answer.status_code == 400
    assert answer.json()["detail"] == {
        "code": "malformed_json",
        "message": "the body has more than 1000000 values",
    }


def test_a_large_batch_of_long_texts_is_no_batch_of_many_values(live: LiveNode) -> None:
    batch = [fact(relation=f"memory:r{n}", v="[1, 2]," * 20_000) for n in range(10)]
    answer = live.call("POST", "/v1/facts/batch", json=batch)
    assert [each["status"] for each in answer.json()["results"]] == [201] * 10


@pytest.mark.parametrize("path", ["/v1/episodes/batch", "/v1/summaries"])
def test_a_large_body_delays_no_other_request(
    live: LiveNode, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[str] = []

    def parse(model: Any, data: bytes) -> Any:
        readers.append(threading.current_thread().name)
        return parse_body(model, data)

    monkeypatch.setattr(call, "parse_body", parse)
    assert live.call("POST", path, json={}).status_code == 422
    live.call("POST", "/v1/recall", json={"query": "x"})
    in_thread, in_loop = readers
    assert in_thread != in_loop


def test_absent_gardens_and_attestation_keys_are_named(live: LiveNode) -> None:
    garden = live.call("POST", "/v1/facts", json=fact(garden_id="ops"))
    assert (garden.status_code, garden.json()) == (404, {"detail": "garden not found"})
    attested = fact(attestation={"key_id": "k1", "signature": "s"})
    answer = live.call("POST", "/v1/facts", json=attested)
    assert answer.status_code == 400
    assert answer.json() == {"detail": "attestation.key_id 'k1' not found"}


def test_instructions_need_their_own_permission(live: LiveNode) -> None:
    body = fact(interpret_as="instruction")
    refused = live.call("POST", "/v1/facts", json=body)
    assert refused.status_code == 403
    assert refused.json()["detail"]["code"] == "instruction_write_required"
    key = live.mint("write", "instruction:write")
    assert live.call("POST", "/v1/facts", json=body, key=key).status_code == 201


def test_unknown_routes_and_methods(live: LiveNode) -> None:
    for path in ("/nope", "/v1/facts/", "//v1/facts", "/v1//facts", "/v1/facts/a/b"):
        answer = live.call("GET", path)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"}), path
    wrong = live.call("DELETE", "/v1/recall")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert "POST" in wrong.headers["Allow"]


@pytest.mark.parametrize("key", ["", "k" * 256, "k\x07"])
def test_an_idempotency_key_must_be_usable(live: LiveNode, key: str) -> None:
    headers = {"Idempotency-Key": key}
    if key == "k\x07":
        headers = {"Idempotency-Key": "k\tk"}
    answer = live.call("POST", "/v1/facts", json=fact(), headers=headers)
    assert answer.status_code == 400
    assert answer.json()["detail"]["code"] == "invalid_idempotency_key"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (StorageFull("no space"), 507, "storage_full"),
        (StorageFailed("device"), 503, "storage_failed"),
        (OSError(errno.EMFILE, "Too many open files"), 503, "degraded"),
        (RuntimeError("can't start new thread"), 503, "degraded"),
        (MemoryError(), 503, "degraded"),
        (RuntimeError("secret detail"), 500, "internal_error"),
    ],
)
def test_a_failing_disk_is_reported_without_a_trace(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch, fault: Exception, status: int, code: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(live.node.writer, "take", broken)
    answer = live.call("POST", "/v1/facts", json=fact())
    assert (answer.status_code, answer.json()["detail"]["code"]) == (status, code)
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    if status == 500:
        assert len(answer.json()["detail"]["error_id"]) == 16


def raw_exchange(live: LiveNode, head: bytes) -> bytes:
    """Send bytes that no client library would; the first line of the answer."""
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
        return connection.makefile("rb").readline()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /v1/facts HTTP/1.1\r\nAuthorization: Bearer \xff\xfe", b"401"),
        (b"GET /v1/me HTTP/1.1\r\nAuthorization: Basic x", b"401"),
        (b"GET /v1/facts/%ff HTTP/1.1\r\nAuthorization: Bearer KEY", b"404"),
        (b"GET /v1/facts/%00 HTTP/1.1\r\nAuthorization: Bearer KEY", b"404"),
        (b"GET /v1/facts?entity=%ff HTTP/1.1\r\nAuthorization: Bearer KEY", b"200"),
        (b"GET /v1/facts?entity=%00 HTTP/1.1\r\nAuthorization: Bearer KEY", b"422"),
        (b"GET /v1/facts HTTP/1.1\r\nAuthorization: Bearer KEY\r\nStigmem-Session: \xff", b"400"),
        (b"GET /v1/facts?cursor=%ff HTTP/1.1\r\nAuthorization: Bearer KEY", b"4"),
        (b"PUT /v1/decay/policies/%ff HTTP/1.1\r\nAuthorization: Bearer KEY", b"422"),
        (b"GET //v1/facts HTTP/1.1\r\nAuthorization: Bearer KEY", b"404"),
        (b"GET /v1/facts?a=%zz HTTP/1.1\r\nAuthorization: Bearer KEY", b"200"),
    ],
)
def test_bytes_that_are_no_text_never_break_the_node(
    serve: Callable[..., LiveNode], head: bytes, status: bytes
) -> None:
    live = serve(auth_required=True)
    key = live.mint("read", "write")
    line = raw_exchange(live, head.replace(b"KEY", key.encode()))
    assert line.split(b" ")[1].startswith(status), line


def test_parallel_writers_each_read_their_own_write(live: LiveNode) -> None:
    def write_and_read(n: int) -> bool:
        record = live.state(relation=f"memory:r{n}", v=str(n))
        read = live.call("GET", f"/v1/facts/{record['id']}").json()
        listed = live.call("GET", "/v1/facts", params={"relation": f"memory:r{n}"}).json()
        return read["value"]["v"] == str(n) and listed["total"] == 1

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(80)))
    assert live.call("GET", "/v1/facts").json()["total"] == 80


@pytest.mark.parametrize(
    ("method", "path", "sent", "code"),
    [
        ("POST", "/v1/facts", {"content": b"{"}, "malformed_json"),
        (
            "POST",
            "/v1/facts",
            {"content": b"x", "headers": {"Content-Encoding": "gzip"}},
            "malformed_body",
        ),
        ("POST", "/v1/facts", {"json": fact() | {"v": "x" * 1_048_577}}, "body_too_large"),
        (
            "POST",
            "/v1/facts",
            {"json": fact(value={"type": "text", "v": "x" * 262_145})},
            "value_too_large",
        ),
        ("GET", "/v1/facts", {"key": "stigcap1.x"}, "token_invalid"),
        ("POST", "/v1/recall", {"json": {"query": "x", "scope": "galaxy"}}, "invalid_scope"),
        ("GET", "/v1/facts/none", {}, "fact_not_found"),
    ],
)
def test_every_failure_with_a_code_has_it_in_a_header(
    live: LiveNode, method: str, path: str, sent: dict[str, Any], code: str
) -> None:
    answer = live.call(method, path, **sent)
    assert answer.headers.get("X-Error-Code") == code, answer.text
    detail = answer.json()["detail"]
    assert isinstance(detail, str) or detail["code"] == code
