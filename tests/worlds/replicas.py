"""A primary and replicas that follow it, as processes."""

from pathlib import Path
from typing import Any

from engramlog.api.client.client import Client
from tests.worlds.processes import NodeProcess, engramlog
from tests.worlds.waiting import until

_STARTED: list[NodeProcess] = []


def replica_key(primary: NodeProcess) -> str:
    made = engramlog(
        "key", "create", "--data", primary.data, "--entity-uri", "agent:replica",
        "--permission", "replicate",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def started(data: Path, *args: str, env: dict[str, str] | None = None) -> NodeProcess:
    node = NodeProcess(data, "--no-auth", *args, env=env)
    _STARTED.append(node)
    return node


def replica_of(primary_url: str, data: Path, key: str) -> NodeProcess:
    return started(data, "--replica-of", primary_url, env={"STIGMEM_REPLICA_KEY": key})


def position(client: Client) -> int:
    return client.get("/readyz")["position"]


def digests(node: NodeProcess) -> dict[str, Any]:
    control = node.control
    client = Client(control.url, control.token)
    try:
        return client.get("/v1/control/status")["digests"]
    finally:
        client.close()


def assert_equal(primary: NodeProcess, replica: NodeProcess) -> None:
    theirs, ours = primary.client(), replica.client()
    until(lambda: position(ours) == position(theirs))
    assert digests(primary) == digests(replica)
    for path in (
        "/v1/facts?scope=local&limit=100",
        "/v1/facts?scope=company&limit=100",
        "/v1/conflicts",
        "/v1/time-travel/state?as_of=position:6",
        "/v1/recall?query=number&scope=company&token_budget=1000&track=false&as_of=position:6",
    ):
        mine, other = (stable(client.get(path)) for client in (ours, theirs))
        assert mine == other, path


def stable(body: Any) -> Any:
    """An answer without the parts that differ per request."""
    if isinstance(body, dict):
        passing = {"recall_id", "receipt_id", "cursor", "timings", "latency_ms", "took_ms",
                   "elapsed_ms", "stages", "generated_at"}  # fmt: skip
        return {name: stable(value) for name, value in body.items() if name not in passing}
    if isinstance(body, list):
        return [stable(item) for item in body]
    return body
