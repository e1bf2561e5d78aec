"""Requests to other machines: no host blocks a thread beyond its limits."""

import asyncio
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from selectors import DefaultSelector

import pytest

from engramlog.projections import http_exchange
from engramlog.projections.http_exchange import (
    AnswerLimits,
    BlockingHttp,
    HostHungUp,
    HttpFault,
    answer_of,
    deadline_within,
    proxy_for,
)

BRIEF = AnswerLimits(silence_seconds=0.3, whole_seconds=0.6, bytes_per_second=1e9)


@contextmanager
def host(serve: Callable[[socket.socket], None]) -> Generator[str]:
    """A host that lets ``serve`` answer each connection, once it has read the request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answered, args=(connection,), daemon=True).start()

    def answered(connection: socket.socket) -> None:
        with connection:
            try:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                serve(connection)
            except OSError:
                pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def drip(text: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.sendall(text)
        while True:
            threading.Event().wait(0.02)
            connection.sendall(b"x")

    return serve


@pytest.mark.parametrize(
    "begun",
    [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"],
    ids=["headers", "body"],
)
def test_an_answer_that_comes_slowly_for_ever_is_given_up(begun: bytes) -> None:
    with host(drip(begun)) as url:
        http = BlockingHttp(url)
        with pytest.raises(HttpFault, match="in time"):
            http.ask("GET", "/", limits=BRIEF)
        http.close()


def test_a_close_ends_a_request_that_waits() -> None:
    def wait(_: socket.socket) -> None:
        threading.Event().wait(60)

    with host(wait) as url:
        http = BlockingHttp(url)
        waiting = http.begin("GET", "/", limits=deadline_within(60))
        threading.Timer(0.1, http.close).start()
        with pytest.raises(HttpFault, match="closed"):
            answer_of(waiting)
        with pytest.raises(HttpFault, match="closed"):
            http.begin("GET", "/", limits=BRIEF)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nno length", "how long"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", "larger"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000, "larger"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "."),
        (b"nonsense\r\n\r\n", "."),
    ],
    ids=["no length", "too long", "too long in parts", "broken off", "no HTTP"],
)
def test_only_a_whole_answer_of_known_length_counts(text: bytes, reason: str) -> None:
    with host(lambda connection: connection.sendall(text)) as url:
        http = BlockingHttp(url)
        with pytest.raises(HttpFault, match=reason):
            http.ask("GET", "/", limits=deadline_within(10), bytes_max=1000)
        http.close()


def test_a_host_that_hangs_up_is_reported_as_such() -> None:
    with host(lambda _: None) as url:
        http = BlockingHttp(url)
        with pytest.raises(HostHungUp):
            http.ask("POST", "/", content=b"{}", limits=deadline_within(10))
        http.close()


def test_redirects_are_answers_and_are_not_followed() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n"
    with host(lambda connection: connection.sendall(moved)) as url:
        http = BlockingHttp(url)
        assert http.ask("GET", "/", limits=deadline_within(10)).status == 302
        http.close()


def test_received_bytes_extend_the_deadline_up_to_the_whole() -> None:
    limits = AnswerLimits(silence_seconds=10, whole_seconds=100, bytes_per_second=10)
    assert limits.until(0, 0, 0) == 10
    assert limits.until(0, 50, 8) == 15
    assert limits.until(0, 5000, 95) == 100
    assert limits.until(0, 500, 8) == 18


@pytest.mark.parametrize(
    "ask",
    [
        lambda http: http.ask("GET", "/facts", limits=AnswerLimits()),
        lambda http: list(http.parts("/facts", AnswerLimits())),
    ],
    ids=["whole", "in parts"],
)
def test_https_goes_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[BlockingHttp], object]
) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def refuse() -> None:
            connection, _ = proxy.accept()
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")

        answering = threading.Thread(target=refuse)
        answering.start()
        place = f"127.0.0.1:{proxy.getsockname()[1]}"
        monkeypatch.setenv("https_proxy", f"http://ann:p%20w@{place}")
        http = BlockingHttp("https://api.example/v1")
        with pytest.raises(HttpFault):
            ask(http)
        answering.join(10)
        http.close()
    (head,) = asked
    assert head.startswith(b"CONNECT api.example:443 ")
    assert b"Proxy-Authorization: Basic YW5uOnAgdw==" in head


def test_some_hosts_are_asked_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert proxy_for("https://api.example/v1") == "http://proxy.example:3128"
    assert proxy_for("https://inside.example/v1") is None
    assert proxy_for("http://api.example/v1") is None


def test_threads_that_ask_first_at_the_same_time_share_one_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    new_loop = asyncio.SelectorEventLoop

    def slowly(selector: DefaultSelector) -> asyncio.AbstractEventLoop:
        threading.Event().wait(0.05)
        made.append(new_loop(selector))
        return made[-1]

    http_exchange._started_loop.cache_clear()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(http_exchange.asyncio, "SelectorEventLoop", slowly)
    with host(lambda connection: connection.sendall(b"HTTP/1.1 204 OK\r\n\r\n")) as url:
        clients = [BlockingHttp(url) for _ in range(4)]
        asked = [
            threading.Thread(target=http.ask, args=("GET", "/"), kwargs={"limits": AnswerLimits()})
            for http in clients
        ]
        for each in asked:
            each.start()
        for each in asked:
            each.join()
        for http in clients:
            http.close()
    assert len(made) == 1
