"""A real node process to measure, and a raw keep-alive client with little cost."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engramlog.api.cli.main import main

READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 120.0


COMMAND_LINE = "engramlog.api.cli.main"


@contextmanager
def serving(
    data: Path, *, env: dict[str, str] | None = None, module: str = COMMAND_LINE, keys: bool = False
) -> Generator[str, None, None]:
    """The URL of a node process on ``data``, for a ``with`` block.

    ``module`` runs in the command line's place; ``keys``: callers need one, as shipped.
    """
    with serving_process(data, env=env, module=module, keys=keys) as (url, _):
        yield url


@contextmanager
def serving_process(
    data: Path, *, env: dict[str, str] | None = None, module: str = COMMAND_LINE, keys: bool = False
) -> Generator[tuple[str, int], None, None]:
    """Same as ``serving``, with the process id."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", module, "serve", "--data", str(data), "--port", "0"),
            *([] if keys else ["--no-auth"]),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = next(word for word in line.split() if word.startswith("http://"))
        yield url, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=STOP_SECONDS_MAX)
        if process.stdout is not None:
            process.stdout.close()


class RawClient:
    """One keep-alive connection that reads whole answers; ``key`` is its bearer token."""

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        self._head = f"Host: {parts.hostname}:{parts.port}\r\n"
        if key:
            self._head += f"Authorization: Bearer {key}\r\n"
        self._socket = socket.create_connection((parts.hostname, parts.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """Status and body of one exchange."""
        head = (
            f"{method} {path} HTTP/1.1\r\n{self._head}Content-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._received()
        head_bytes, _, rest = data.partition(b"\r\n\r\n")
        lines = head_bytes.split(b"\r\n")
        length = next(
            int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length")
        )
        chunks, have = [rest], len(rest)
        while have < length:
            chunk = self._received()
            chunks.append(chunk)
            have += len(chunk)
        return int(lines[0].split()[1]), b"".join(chunks)

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the node closed the connection")
        return data

    def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """POST a JSON body."""
        return self.request("POST", path, json.dumps(body).encode())

    def close(self) -> None:
        self._socket.close()


def run_command(*arguments: str) -> None:
    """Run an ``engramlog`` command in this process. Raises RuntimeError if it fails."""
    code = main(arguments)
    if code:
        raise RuntimeError(f"engramlog {' '.join(arguments)} ended with {code}")


def wait_ready(url: str) -> None:
    """Return once ``/readyz`` answers 200."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        client = RawClient(url)
        try:
            if client.request("GET", "/readyz")[0] == 200:
                return
        finally:
            client.close()
        time.sleep(0.01)
    raise TimeoutError("the node did not become ready")
