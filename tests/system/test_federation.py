"""Nodes that replay each other, as processes with sockets between them."""

import json
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.client.client import Client, ClientError
from tests.worlds.federation.processes import OPEN, level, mesh
from tests.worlds.federation.texts import texts
from tests.worlds.processes import ROOT, NodeProcess, engramlog, serving
from tests.worlds.waiting import until

CLOCKS = ROOT / "tests" / "worlds" / "federation" / "skewed"
Start = Callable[[str], NodeProcess]


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start, None, None]:
    """Start (again) the node of a name; it keeps its port."""
    with ExitStack() as stack:
        ports: dict[str, str] = {}

        def run(name: str) -> NodeProcess:
            args = ["--no-auth"] + (["--port", ports[name]] if name in ports else [])
            node = NodeProcess(tmp_path / name, *args, env=OPEN)
            stack.callback(node.kill)
            node.wait_ready()
            ports[name] = node.url.rsplit(":", 1)[1]
            return node

        yield run


def state(client: Client, text: str, **more: Any) -> dict[str, Any]:
    return client.post(
        "/v1/facts",
        {
            "entity": "stigmem://t.example/project/atlas",
            "relation": "memory:note",
            "value": {"type": "text", "v": text},
            "source": "agent:t",
            "scope": "company",
            **more,
        },
    )


@pytest.mark.parametrize("count", [2, 3, 5])
def test_nodes_converge(start: Start, count: int) -> None:
    nodes = [start(f"n{number}") for number in range(count)]
    for number, node in enumerate(nodes):
        state(node.client(), f"before {number}")
    mesh(nodes, retract_foreign=True, resolve_foreign=True)
    for number, node in enumerate(nodes):
        for n in range(5):
            state(node.client(), f"after {number} {n}")
        state(node.client(), f"kept here {number}", scope="local")
    wanted = {f"before {n}" for n in range(count)}
    wanted |= {f"after {n} {m}" for n in range(count) for m in range(5)}
    for number, node in enumerate(nodes):
        until(lambda node=node, n=number: texts(node.client()) == wanted | {f"kept here {n}"})
    (first, *_) = (
        nodes[0]
        .client()
        .get("/v1/facts", {"limit": 1, "scope": "company", "include_contradicted": True})["facts"]
    )
    nodes[-1].client().post(f"/v1/facts/{first['id']}/retract", {})
    for node in nodes:
        until(lambda node=node: first["value"]["v"] not in texts(node.client()))
    until(lambda: level(nodes))


def test_a_killed_node_continues_where_it_stopped(start: Start) -> None:
    a, b = start("a"), start("b")
    mesh([a, b])
    for number in range(200):
        state(a.client(), f"one {number}")
        if number == 100:
            b.kill()
    b = start("b")
    until(lambda: {f"one {n}" for n in range(200)} <= texts(b.client()))
    a.kill()
    state(b.client(), "while a was gone")
    a = start("a")
    until(lambda: "while a was gone" in texts(a.client()))
    until(lambda: level([a, b]))
    for node in (a, b):
        assert node.stop() == 0
        done = engramlog("replay", "verify", "--data", node.data)
        assert done.returncode == 0, done.stderr


def test_without_a_grant_the_end_of_others_facts_waits(start: Start) -> None:
    a, b = start("a"), start("b")
    mesh([a, b])
    fact = state(a.client(), "of a")
    until(lambda: "of a" in texts(b.client()))
    b.client().post(f"/v1/facts/{fact['id']}/retract", {})
    state(b.client(), "and then")
    until(lambda: "and then" in texts(a.client()))
    assert "of a" in texts(a.client())
    name = b.client().get("/.well-known/stigmem")["node_id"]
    client = a.client(a.control.token)
    peer = f"/v1/federation/peers/{name}"
    assert client.get(peer)["waiting_ends"] == {"retracted": 1}
    client.request("PUT", f"{peer}/grants", body={"retract_foreign": True})
    until(lambda: "of a" not in texts(a.client()))
    assert client.get(peer)["waiting_ends"] == {}


def test_a_revoked_peer_gets_nothing_more(start: Start) -> None:
    a, b = start("a"), start("b")
    mesh([a, b])
    state(a.client(), "for b")
    until(lambda: "for b" in texts(b.client()))
    name = b.client().get("/.well-known/stigmem")["node_id"]
    admin = a.client(a.control.token)
    admin.post(f"/v1/federation/peers/{name}/revoke", {"reason": "gone"})
    state(a.client(), "too late")
    time.sleep(1.5)
    assert "too late" not in texts(b.client())
    of_a = a.client().get("/.well-known/stigmem")["node_id"]
    status = b.client(b.control.token).get(f"/v1/federation/peers/{of_a}")
    assert "peer_not_approved" in status["replay"]["fault"]


def test_clocks_too_far_apart_are_reported_until_they_agree(start: Start, tmp_path: Path) -> None:
    a = start("a")
    skewed = {"PYTHONPATH": f"{CLOCKS}:{ROOT}", "TEST_CLOCK_SKEW_SECONDS": "90"}
    b = NodeProcess(
        tmp_path / "b", "--no-auth", env={**OPEN, **skewed}, within=("env",)
    ).wait_ready()
    try:
        mesh([a, b])
        state(a.client(), "of a")
        state(b.client(), "from 90 seconds ahead")
        of_a = a.client().get("/.well-known/stigmem")["node_id"]
        path = f"/v1/federation/peers/{of_a}"
        control = b.client(b.control.token)
        told = until(lambda: str(control.get(path)["replay"]["fault"] or ""))
        assert "iat_in_future (the clocks of both nodes differ by over 30 s: correct" in told
        assert "of a" not in texts(b.client())
        port = b.url.rsplit(":", 1)[1]
    finally:
        b.kill()
    with serving(tmp_path / "b", "--no-auth", "--port", port, env=OPEN) as b:
        until(lambda: "of a" in texts(b.client()))
        until(lambda: "from 90 seconds ahead" in texts(a.client()))


def test_declarations_are_verified(start: Start) -> None:
    a, b = start("a"), start("b")
    client = a.client(a.control.token)
    declaration = b.client().get("/v1/federation/declaration")
    fingerprint = declaration.pop("pubkey_fingerprint")
    for change in (
        {"allowed_scopes": ["public"]},
        {"node_url": "ftp://127.0.0.1"},
        {"node_id": "stigmem:node:00000000-0000-4000-8000-000000000000"},
        {"declaration_sig": "AAAA"},
    ):
        refused = client.post("/v1/federation/peers", {**declaration, **change})
        assert refused["status"] == "rejected", change
        assert refused["reason"]
    peer = client.post("/v1/federation/peers", declaration)
    with pytest.raises(ClientError) as again:
        client.post("/v1/federation/peers", declaration)
    assert again.value.status == 409
    path = f"/v1/federation/peers/{peer['peer_id']}/approve"
    with pytest.raises(ClientError) as wrong:
        client.post(path, {"pubkey_fingerprint": "sha256:00"})
    assert (wrong.value.status, "fingerprint mismatch" in str(wrong.value)) == (400, True)
    client.post(path, {"pubkey_fingerprint": fingerprint})
    with pytest.raises(ClientError) as twice:
        client.post(path, {"pubkey_fingerprint": fingerprint})
    assert twice.value.status == 409


def test_a_declaration_of_a_stopped_node_has_its_address(
    tmp_path: Path,
) -> None:
    for env, url in (
        ({}, "http://127.0.0.1:8765"),
        ({"STIGMEM_NODE_URL": "https://memory.example.org"}, "https://memory.example.org"),
    ):
        data = tmp_path / "data"
        engramlog("import", "-", "--data", data)
        shown = engramlog("peer", "declaration", "--data", data, env=env)
        assert json.loads(shown.stdout)["node_url"] == url


def test_a_node_added_as_its_own_peer_is_told_so_each_time(start: Start) -> None:
    node = start("a")
    for _ in range(2):  # one record is kept
        added = engramlog("peer", "add", node.url, "--data", node.data)
        assert "the declaration was rejected: a node is no peer of itself" in added.stderr
    (peer,) = json.loads(engramlog("peer", "list", "--data", node.data, "--json").stdout)["peers"]
    assert peer["status"] == "rejected"


def test_peers_are_managed_from_the_command_line(start: Start) -> None:
    a, b = start("a"), start("b")
    added = engramlog("peer", "add", b.url, "--data", a.data)
    (peer,) = json.loads(engramlog("peer", "list", "--data", a.data, "--json").stdout)["peers"]
    assert f"engramlog peer approve {peer['peer_id']} --fingerprint" in added.stdout
    assert added.returncode == 0, added.stderr
    fingerprint = added.stdout.split("fingerprint: ")[1].split()[0]
    name = b.client().get("/.well-known/stigmem")["node_id"]
    for command in (
        ("approve", name, "--fingerprint", fingerprint),
        ("list",),
        ("status", name),
        ("grant", name, "--retract-foreign", "--instructions", "--wire", "facts"),
        ("grant", name, "--retract-foreign", "--instructions", "--wire", "events"),
        ("revoke", name, "--reason", "enough"),
    ):
        done = engramlog("peer", *command, "--data", a.data)
        assert done.returncode == 0, (command, done.stderr)
        if command[0] == "grant":
            granted = a.client(a.control.token).get(f"/v1/federation/peers/{name}")["grants"]
            assert (granted["retract_foreign"], granted["instructions"]) == (True, True)
            assert granted["wire"] == ("facts" if "facts" in command else "events")
            refused = engramlog("peer", "grant", name, "--scope", "local", "--data", a.data)
            assert refused.returncode == 1
            assert "does not offer local" in refused.stderr
    header, row = engramlog("peer", "list", "--data", a.data).stdout.splitlines()
    # What is offered, not what is granted.
    assert header.split() == ["peer", "status", "node", "address", "offers", "fault"]
    assert row.split()[1:3] == ["revoked", name]
