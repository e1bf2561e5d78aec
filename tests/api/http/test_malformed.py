"""Requests that are no HTTP get the protocol's error too."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.worlds.live import LiveNode

HEAD = b"Host: localhost\r\nConnection: close\r\n"


def exchange(live: LiveNode, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (names in lower case) and body of the answer to these bytes."""
    place = urlsplit(live.url)
    with socket.create_connection((place.hostname, place.port), 10) as sock:
        sock.sendall(data)
        head, _, body = sock.makefile("rb").read().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    named = (line.split(": ", 1) for line in lines)
    return int(status.split()[1]), {name.lower(): text for name, text in named}, body


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET /v1/facts?entity=" + b"a" * 9_000 + b" HTTP/1.1\r\n", 431, "header_too_large"),
        (b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 9_000 + b"\r\n", 431, "header_too_large"),
        (b"GET /healthz HTTP/1.1\r\n" + b"X-A: a\r\n" * 200, 400, "malformed_request"),
        (b"FOO /healthz HTTP/1.1\r\n", 400, "malformed_request"),
        (b"GET /healthz HTTP/1.1\r\nno header\r\n", 400, "malformed_request"),
        (b"POST /v1/facts HTTP/1.1\r\nContent-Length: x\r\n", 400, "malformed_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 400, "malformed_request"),
        (b"GET http://[::1/ HTTP/1.1\r\n", 400, "malformed_request"),
    ],
)
def test_a_request_that_the_parser_refuses_gets_a_coded_error(
    refusing: LiveNode, sent: bytes, status: int, code: str
) -> None:
    answered, headers, body = exchange(refusing, sent + HEAD + b"\r\n")
    assert (answered, json.loads(body)["detail"]["code"]) == (status, code)
    assert headers["content-type"] == "application/json"
    assert headers["x-error-code"] == code


def test_a_refused_header_is_not_repeated(
    refusing: LiveNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    secret = b"Bearer " + b"k" * 9_000
    sent = b"GET /healthz HTTP/1.1\r\nAuthorization: " + secret + b"\r\n" + HEAD + b"\r\n"
    _, _, body = exchange(refusing, sent)
    assert json.loads(body)["detail"]["message"] == (
        "the request line and each header may have at most 8190 bytes"
    )
    assert "header_too_large" in caplog.text
    assert "kkk" not in caplog.text


def test_the_largest_header_passes(refusing: LiveNode) -> None:
    # The limit counts a header's name and value.
    for size, expected in ((8_187, 200), (8_188, 431)):
        sent = b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * size + b"\r\n" + HEAD + b"\r\n"
        assert exchange(refusing, sent)[0] == expected


def test_an_unknown_expectation_is_refused_as_json(refusing: LiveNode) -> None:
    sent = b"GET /healthz HTTP/1.1\r\nExpect: magic\r\n" + HEAD + b"\r\n"
    status, headers, body = exchange(refusing, sent)
    assert (status, headers["content-type"]) == (417, "application/json")
    assert json.loads(body) == {"detail": "Expectation Failed"}
