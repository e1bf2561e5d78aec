"""Embedding servers on real sockets with each provider's documented API.

Fault model: an answer may have any status, headers and body, may be cut short, slow, or sent byte
by byte; the server may also be absent. Each test scripts the next answers; without a script a
server answers as documented.
"""

import json
import socket
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.worlds.waiting import SECONDS_MAX


@dataclass
class Scripted:
    """The answer to one request in place of the documented one."""

    status: int = 200
    body: bytes | Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    after: threading.Event | None = None
    """Nothing is sent before this is set."""
    drip_seconds: float = 0.0
    promised_length: int | None = None

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Server:
    """A running server. ``requests`` are (path, headers, body) in order of arrival;
    ``connections_closed`` counts connections closed by this side."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.script: deque[Scripted] = deque()
        self.close_after_answer = False
        self.connections_closed = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, dict(self.headers), body))
                given = (
                    outer.script.popleft() if outer.script else Scripted(body=outer.answer(body))
                )
                time.sleep(given.delay_seconds)
                if given.after is not None:
                    given.after.wait(SECONDS_MAX)
                content = given.content
                self.send_response(given.status)
                length = len(content) if given.promised_length is None else given.promised_length
                self.send_header("Content-Length", str(length))
                self.send_header("Content-Type", "application/json")
                for name, value in given.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if given.drip_seconds:
                    for byte in content:
                        self.wfile.write(bytes([byte]))
                        time.sleep(given.drip_seconds)
                else:
                    self.wfile.write(content)
                self.close_connection = outer.close_after_answer or length != len(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                outer.connections_closed += 1

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that gave up waiting

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def numbers(text: str, dimensions: int) -> list[float]:
    """A text's vector, not of unit length; the same for the same text."""
    seed = zlib.crc32(text.encode())
    return [((seed * (n + 1) * 2654435761) % 1000003) / 1000003 - 0.5 for n in range(dimensions)]


def ollama_api(body: dict[str, Any], dimensions: int = 768) -> Any:
    """``/api/embed`` as documented."""
    vectors = [numbers(text, dimensions) for text in body["input"]]
    return {
        "model": body["model"],
        "embeddings": vectors,
        "total_duration": 14143917,
        "load_duration": 1019500,
        "prompt_eval_count": 8,
    }


def openai_api(body: dict[str, Any], dimensions: int = 1536) -> Any:
    """``/embeddings`` as documented, last item first, because their order is their index."""
    items = [
        {"object": "embedding", "index": n, "embedding": numbers(text, dimensions)}
        for n, text in enumerate(body["input"])
    ]
    return {
        "object": "list",
        "data": items[::-1],
        "model": body["model"],
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }


def voyage_api(body: dict[str, Any]) -> Any:
    """``/embeddings`` of Voyage as documented."""
    answer = openai_api(body, 512)
    return answer | {"usage": {"total_tokens": 10}}


@contextmanager
def serving(answer: Callable[[dict[str, Any]], Any]) -> Generator[Server, None, None]:
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
