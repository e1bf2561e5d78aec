"""Answers written in one go equal aiohttp's own."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.worlds.live import LiveNode


def exchange(live: LiveNode, text: str) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Status line, headers and body of one answer, without its date."""
    place = urlsplit(live.url)
    with socket.create_connection((place.hostname, place.port), 10) as sock:
        sock.sendall(text.replace("\n", "\r\n").encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += sock.recv(65_536)
        head, _, body = data.partition(b"\r\n\r\n")
        line, *rest = head.split(b"\r\n")
        headers = dict(each.split(b": ", 1) for each in rest)
        asked = 0 if text.startswith("HEAD") else int(headers[b"Content-Length"])
        while len(body) < asked:
            body += sock.recv(65_536)
    del headers[b"Date"]
    return line, headers, body


@pytest.mark.parametrize("path", ["/v1/facts?limit=1", "/v1/facts/none", "/v1/no-such-route"])
def test_both_ways_of_answering_are_equal(live: LiveNode, path: str) -> None:
    line, headers, body = exchange(live, f"GET {path} HTTP/1.1\nHost: localhost\n\n")
    assert int(headers[b"Content-Length"]) == len(body) > 0
    assert b"Connection" not in headers
    closing = exchange(live, f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n")
    assert closing == (line, headers | {b"Connection": b"close"}, body)
    old = exchange(live, f"GET {path} HTTP/1.0\nHost: localhost\n\n")
    assert old == (line.replace(b"1.1", b"1.0"), headers, body)
    head = exchange(live, f"HEAD {path} HTTP/1.1\nHost: localhost\n\n")
    assert head == (line, headers, b"")
