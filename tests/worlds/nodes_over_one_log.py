"""Nodes over one log in PostgreSQL, and requests to them."""

import json
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.worlds.processes import NodeProcess, engramlog

SERVER = {"STIGMEM_LOG_DURABILITY": "server"}


@contextmanager
def node(data: Path, url: str, env: Mapping[str, str] = SERVER) -> Generator[NodeProcess]:
    process = NodeProcess(data, "--no-auth", "--log", url, env=env)
    try:
        yield process.wait_ready()
    finally:
        process.stop()


def identity_of(first: Path, second: Path) -> None:
    """Give a second directory the identity of the first."""
    made = engramlog("identity", "backup", second / "identity", "--data", first)
    assert made.returncode == 0, made.stderr


def ask(
    at: NodeProcess, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    """One request over the wire: status, body, headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(at.url + path, data, named, method=method)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as found:
            return found.status, json.loads(found.read()), dict(found.headers)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read()), dict(refused.headers)


def leads(at: NodeProcess) -> int:
    with urllib.request.urlopen(at.url + "/metrics") as metrics:
        return metrics.read().decode().count("\nengramlog_log_leads 1\n")


def digests(at: NodeProcess) -> Any:
    """The position and digests of the node's tables."""
    done = engramlog("replay", "status", "--data", at.data, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["digests"]
