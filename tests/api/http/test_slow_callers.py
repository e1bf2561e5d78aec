"""Callers that hold connections: unfinished headers, stopped bodies, idleness, sheer number."""

import gzip
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiohttp.http_parser import DeflateBuffer

from engramlog.api.http import connections
from engramlog.api.node.node import Node
from engramlog.api.node.process.serving import serve_in_background
from engramlog.api.routes.time_travel.export import _Lines
from engramlog.api.settings import Settings
from tests.worlds.waiting import until

MOST = 12
MOST_EACH = 8


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A node with short deadlines and few connections."""
    data = tmp_path_factory.mktemp("slow") / "data"
    patch = pytest.MonkeyPatch()
    for name, seconds in (
        ("HEADER_SECONDS_MAX", 0.4),
        ("IDLE_SECONDS_MAX", 0.6),
        ("WINDOW_SECONDS", 0.4),
        ("SWEEP_SECONDS", 0.05),
    ):
        patch.setattr(connections, name, seconds)
    settings = Settings(
        data_dir=data,
        port=0,
        auth_required=False,
        recall_workers=0,
        connections_max=MOST,
        connections_per_address_max=MOST_EACH,
    )
    node = Node.open(data)
    with serve_in_background(node, settings) as control:
        yield int(control.url.rsplit(":", 1)[1])
    node.close()
    patch.undo()


def connected(port: int, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 30, (source, 0))
    made.sendall(data)
    return made


def everything(sock: socket.socket) -> bytes:
    """All bytes until the node closes."""
    found = b""
    with sock:
        try:
            while part := sock.recv(65_536):
                found += part
        except ConnectionResetError:
            pass
    return found


def posted(path: str, length: int, *headers: str) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
        f"Content-Length: {length}", *headers, "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode()


def status(port: int, source: str = "127.0.0.1") -> int:
    """The status of a health check that closes its connection."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return int(everything(connected(port, request, source)).split()[1])


@pytest.mark.parametrize(
    "start",
    [b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "],
    ids=["nothing", "a line", "a header"],
)
def test_an_unfinished_header_ends(port: int, start: bytes) -> None:
    assert everything(connected(port, start)) == b""


def test_a_header_sent_byte_by_byte_ends(port: int) -> None:
    sock = connected(port)
    try:
        for byte in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 500:
            sock.sendall(bytes([byte]))
            time.sleep(0.02)
    except OSError:
        return
    finally:
        sock.close()
    pytest.fail("the node waited for the whole header")


@pytest.mark.parametrize("path", ["/v1/facts", "/v1/facts/batch"])
def test_a_body_that_stops_ends(port: int, path: str) -> None:
    sock = connected(port, posted(path, 1_000_000) + b'{"entity":')
    assert b"201" not in everything(sock)


def test_an_idle_connection_ends_after_its_answer(port: int) -> None:
    sock = connected(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert everything(sock).startswith(b"HTTP/1.1 200")


def test_one_address_cannot_take_every_connection(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS_MAX", 2.0)  # all are held at once
    held = [connected(port, b"GET /") for _ in range(MOST_EACH)]
    try:
        refused = everything(connected(port))
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"Retry-After" in refused
        assert b"X-Error-Code: too_many_connections" in refused
        assert status(port, "127.0.0.2") == 200
        more = [connected(port, b"GET /", "127.0.0.2") for _ in range(MOST - MOST_EACH)]
        held += more
        assert everything(connected(port, source="127.0.0.3")).startswith(b"HTTP/1.1 503")
    finally:
        for sock in held:
            everything(sock)  # the node ends them by itself
    assert status(port) == 200


@pytest.mark.parametrize(
    ("files", "callers"), [(100_000, 1_000), (1_024, 768), (256, 64), (64, 16)]
)
def test_where_few_files_may_be_open_callers_still_get_some(
    monkeypatch: pytest.MonkeyPatch, files: int, callers: int
) -> None:
    monkeypatch.setattr(connections, "descriptors", lambda: files)
    assert connections.Connections(1_000, 500).most == callers


def test_a_compressed_body_is_limited_before_it_is_inflated(port: int) -> None:
    body = gzip.compress(json.dumps({"query": "x" * 900_000}).encode())
    assert len(body) * 100 < 900_000
    sock = connected(port, posted("/v1/recall", len(body), "Content-Encoding: gzip") + body)
    assert b" 413 " in everything(sock).split(b"\r\n")[0]
    honest = gzip.compress(json.dumps({"query": "tea"}).encode())
    sock = connected(
        port,
        posted("/v1/recall", len(honest), "Content-Encoding: gzip", "Connection: close") + honest,
    )
    assert b" 200 " in everything(sock).split(b"\r\n")[0]
    chunked = posted("/v1/recall", 0, "Content-Encoding: gzip", "Transfer-Encoding: chunked")
    chunked = chunked.replace(b"Content-Length: 0\r\n", b"")
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(honest), honest)
    assert b" 200 " in everything(connected(port, chunked + chunk)).split(b"\r\n")[0]
    zipped = posted("/v1/recall", len(honest), "Content-Encoding: zstd") + honest
    assert b" 415 " in everything(connected(port, zipped)).split(b"\r\n")[0]
    for wrong in (honest[:-4], honest + b"x", b"{}"):
        sent = posted("/v1/recall", len(wrong), "Content-Encoding: gzip") + wrong
        assert b" 400 " in everything(connected(port, sent)).split(b"\r\n")[0]


def test_aiohttp_inflates_no_body(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # It would inflate all of it, in the event loop.
    used: list[object] = []
    feed_data = DeflateBuffer.feed_data
    monkeypatch.setattr(
        DeflateBuffer, "feed_data", lambda *given: used.append(given) or feed_data(*given)
    )
    bomb = gzip.compress(bytes(50_000_000))
    for path in ("/v1/recall", "/healthz"):
        sent = posted(path, len(bomb), "Content-Encoding: gzip", "Connection: close") + bomb
        assert everything(connected(port, sent)).split(b"\r\n")[0][9:12] in (b"413", b"405")
    assert used == []


@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK", b"{}\n{}"], ids=["at once", "amidst"])
def test_a_caller_that_leaves_during_a_stream_is_no_error_of_the_node(
    begun: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = iter([b"{}\n" * 10_000_000] * 2 + [b""])  # each more than the sockets hold
    monkeypatch.setattr(_Lines, "next", lambda _: next(lines))
    caplog.set_level("INFO", "engramlog.api.http.app")
    with closing(Node.open(tmp_path / "data")) as node:
        settings = Settings(data_dir=tmp_path / "data", port=0, auth_required=False)
        with serve_in_background(node, settings) as control:
            asked = b"GET /v1/export HTTP/1.1\r\nHost: localhost\r\n\r\n"
            with connected(int(control.url.rsplit(":", 1)[1]), asked) as sock:
                received = sock.recv(15)
                while begun not in received:
                    received += sock.recv(1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            until(lambda: caplog.records)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "GET /v1/export: the caller has gone")
    ]
