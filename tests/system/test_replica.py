"""A replica in its own process: the same answers as its primary, through crashes of either."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.client.client import Client, ClientError
from tests.worlds.federation.processes import OPEN, befriend
from tests.worlds.federation.texts import texts
from tests.worlds.processes import NodeProcess, engramlog, fact, serving
from tests.worlds.replicas import _STARTED, assert_equal, position, replica_key, replica_of, started
from tests.worlds.waiting import until


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """No node outlives its test, however that ends."""
    yield
    for node in _STARTED:
        if node.process.poll() is None:
            node.kill()
    _STARTED.clear()


def write(client: Client, first: int, count: int) -> None:
    for n in range(first, first + count):
        client.post("/v1/facts", fact(n, scope="local" if n % 2 else "company"))


def test_a_replica_answers_as_its_primary_through_crashes_of_either(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    write(primary.client(), 0, 30)
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert_equal(primary, replica)

    write(primary.client(), 30, 10)
    assert_equal(primary, replica)
    with pytest.raises(ClientError) as refused:
        replica.client().post("/v1/facts", fact(999))
    assert (refused.value.status, refused.value.code) == (409, "replica_read_only")
    assert primary.url in str(refused.value)

    replica.kill()
    write(primary.client(), 40, 10)
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert_equal(primary, replica)

    port = primary.url.rsplit(":", 1)[1]
    primary.kill()
    until(lambda: not replica.client().get("/readyz")["replica"]["connected"])
    assert len(replica.client().get("/v1/facts?scope=company&limit=100")["facts"]) == 25
    primary = started(tmp_path / "primary", "--port", port).wait_ready()
    write(primary.client(), 50, 10)
    assert_equal(primary, replica)
    verified = engramlog("replay", "verify", "--data", tmp_path / "replica")
    assert verified.returncode == 0, verified.stderr
    assert replica.stop() == 0
    assert primary.stop() == 0


def test_a_write_appears_on_the_replica_and_lag_is_reported(tmp_path: Path) -> None:
    with serving(tmp_path / "primary", "--no-auth") as primary:
        key = replica_key(primary)
        replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
        try:
            theirs, ours = primary.client(), replica.client()
            for n in range(20):
                answer = theirs.post("/v1/facts", fact(n))
                until(lambda wanted=answer["position"]: position(ours) >= wanted)
            told = ours.get("/readyz")["replica"]
            assert (told["connected"], told["lag"], told["fault"]) == (True, 0, None)
            assert told["primary"] == primary.url
        finally:
            replica.stop()


def log_check(node: NodeProcess) -> str:
    return " ".join(node.client().get("/v1/doctor")["checks"][0].values())


def test_a_promoted_replica_writes_as_a_new_origin(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    write(primary.client(), 0, 4)
    old_id = primary.client().get("/.well-known/stigmem")["node_id"]
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert_equal(primary, replica)
    assert replica.client().get("/.well-known/stigmem")["node_id"] == old_id
    assert f"log ok a replica, 0 positions behind {primary.url}, which" in log_check(replica)
    primary.kill()
    until(lambda: f"log warning a replica of {primary.url}: cannot" in log_check(replica))

    refused = engramlog("serve", "--data", tmp_path / "replica", "--port", "0")
    assert refused.returncode == 1  # it is in use, and a replica
    promoted = engramlog("promote", "--data", tmp_path / "replica")
    assert promoted.returncode == 0, promoted.stderr
    ours = replica.client()
    new_id = ours.get("/.well-known/stigmem")["node_id"]
    assert new_id != old_id
    answer = ours.post("/v1/facts", fact(100))
    assert answer["position"] > 4
    again = engramlog("promote", "--data", tmp_path / "replica")
    assert again.returncode == 1
    assert "this node is not a replica" in again.stderr
    assert replica.stop() == 0
    kept = engramlog("serve", "--data", tmp_path / "replica", "--replica-of", primary.url)
    assert "serve it without --replica-of, as after a promotion" in kept.stderr
    with serving(tmp_path / "replica", "--no-auth") as node:
        facts = node.client().get("/v1/facts?scope=company&limit=100")["facts"]
        assert len(facts) == 3
        node.client().post("/v1/facts", fact(101))
    verified = engramlog("replay", "verify", "--data", tmp_path / "replica")
    assert verified.returncode == 0, verified.stderr


def test_a_replica_promoted_while_it_serves_takes_the_primarys_place_among_its_peers(
    tmp_path: Path,
) -> None:
    primary = started(tmp_path / "primary", env=OPEN).wait_ready()
    peer = started(tmp_path / "peer", env=OPEN).wait_ready()
    befriend(primary, peer)
    befriend(peer, primary)
    other = peer.client()
    theirs = primary.client().post("/v1/facts", fact(0, value={"type": "string", "v": "first"}))
    until(lambda: texts(other) == {"first"})
    args = ("--replica-of", primary.url)
    env = {"STIGMEM_REPLICA_KEY": replica_key(primary), **OPEN}
    replica = started(tmp_path / "replica", *args, env=env).wait_ready()
    until(lambda: position(replica.client()) == position(primary.client()))
    primary.kill()
    with admin(replica) as owner:
        owner.post("/v1/replication/promote", {})
    befriend(peer, replica, retract_foreign=True)
    other.post("/v1/facts", fact(2, value={"type": "string", "v": "later"}))
    ours = replica.client()
    until(lambda: "later" in texts(ours))
    ours.post(f"/v1/facts/{theirs['id']}/retract", {})
    until(lambda: texts(other) == {"later"})


def test_a_stopped_replica_is_served_only_as_one_and_promoted_offline(tmp_path: Path) -> None:
    with serving(tmp_path / "primary", "--no-auth") as primary:
        key = replica_key(primary)
        write(primary.client(), 0, 3)
        replica_of(primary.url, tmp_path / "replica", key).wait_ready().stop()
    forgotten = engramlog("serve", "--data", tmp_path / "replica", "--port", "0", "--no-auth")
    assert forgotten.returncode == 1
    assert "is a replica of" in forgotten.stderr
    lines = tmp_path / "lines.jsonl"
    lines.write_text(
        '{"entity":"a:b","relation":"memory:x","value":{"type":"string","v":"y"},'
        '"source":"agent:z","scope":"local"}\n'
    )
    imported = engramlog("import", lines, "--data", tmp_path / "replica")
    assert imported.returncode == 1
    assert "read-only replica" in imported.stderr
    assert engramlog("promote", "--data", tmp_path / "replica").returncode == 0
    assert engramlog("import", lines, "--data", tmp_path / "replica").returncode == 0


def test_a_backup_of_a_replica_restores_a_replica(tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    with serving(tmp_path / "primary", "--no-auth") as primary:
        key = replica_key(primary)
        write(primary.client(), 0, 3)
        replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
        assert engramlog("backup", tmp_path / "copy", "--data", replica.data).returncode == 0
        assert engramlog("restore", tmp_path / "copy", "--data", restored).returncode == 0
        assert "is a replica of" in engramlog("serve", "--data", restored).stderr
        write(primary.client(), 3, 3)
        assert_equal(primary, replica_of(primary.url, restored, key).wait_ready())
        _STARTED[-1].stop()
    assert engramlog("promote", "--data", restored).returncode == 0
    assert promotions(restored) == 1
    assert engramlog("backup", tmp_path / "promoted", "--data", restored).returncode == 0
    again = tmp_path / "again"
    assert engramlog("restore", tmp_path / "promoted", "--data", again).returncode == 0
    assert promotions(again) == 1


def promotions(data: Path) -> int:
    counted = "SELECT count(*) FROM events WHERE kind = 'replica_promoted'"
    found = engramlog("audit", "sql", counted, "--data", data, "--format", "json")
    return json.loads(found.stdout)["rows"][0][0]


def test_a_directory_that_cannot_be_a_replica_says_so(tmp_path: Path) -> None:
    with serving(tmp_path / "primary", "--no-auth") as primary:
        key = replica_key(primary)
        write(primary.client(), 0, 1)
        url = primary.url
        for args, env, words in (
            (["--data", tmp_path / "new"], {"STIGMEM_REPLICA_KEY": "wrong"}, "403"),
            (["--data", tmp_path / "new2", "--replica-of", "ftp://x"], {}, "not an http"),
        ):
            done = engramlog(
                "serve", "--port", "0", "--replica-of", url, *args, env={**os.environ, **env}
            )
            assert done.returncode == 1
            assert words in done.stderr, done.stderr
        plain = tmp_path / "plain"
        with serving(plain, "--no-auth") as other:
            write(other.client(), 0, 1)
        done = engramlog(
            "serve", "--port", "0", "--data", plain, "--replica-of", url,
            env={"STIGMEM_REPLICA_KEY": key},
        )  # fmt: skip
        assert done.returncode == 1
        assert "holds a log of its own" in done.stderr


def test_only_the_machines_owner_grants_the_whole_log(tmp_path: Path) -> None:
    with serving(tmp_path / "primary") as primary:
        made = engramlog(
            "key", "create", "--data", primary.data, "--entity-uri", "agent:admin",
            "--permission", "admin",
        )  # fmt: skip
        admin = primary.client(made.stdout.strip())
        body = {
            "raw_key": "r" * 40, "entity_uri": "agent:eve", "permissions": ["replicate"],
        }  # fmt: skip
        with pytest.raises(ClientError) as refused:
            admin.post("/v1/auth/keys", body)
        assert refused.value.status == 403
        with pytest.raises(ClientError) as refused:
            admin.get("/v1/replication/events")
        assert refused.value.status == 403


def test_a_primary_that_lost_its_end_is_no_longer_followed(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    write(primary.client(), 0, 4)
    assert primary.stop() == 0
    saved = {path: path.read_bytes() for path in (tmp_path / "primary").glob("log.db*")}
    primary = started(tmp_path / "primary").wait_ready()
    write(primary.client(), 4, 4)
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert_equal(primary, replica)
    port = primary.url.rsplit(":", 1)[1]
    primary.kill()
    for path in (tmp_path / "primary").glob("log.db*"):
        path.unlink()
    for path, data in saved.items():
        path.write_bytes(data)
    primary = started(tmp_path / "primary", "--port", port, "--accept-rollback").wait_ready()
    write(primary.client(), 50, 9)

    def fault() -> str | None:
        try:
            replica.client().get("/readyz")
        except ClientError as failure:
            body: Any = failure.answer
            return body["replica"]["fault"]
        return None

    until(lambda: fault() is not None)
    assert "another event" in str(fault()) or "ends at position" in str(fault())
    assert len(replica.client().get("/v1/facts?scope=company&limit=100")["facts"]) == 4
    replica.stop()
    primary.stop()


def test_keys_and_capabilities_of_the_primary_open_a_replica_of_a_replica(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    write(primary.client(), 0, 4)
    issued = engramlog(
        "capability", "issue", "--subject", "agent:x", "--scope", "company", "--data",
        primary.data, "--json",
    )  # fmt: skip
    capability = json.loads(issued.stdout)
    first = replica_of(primary.url, tmp_path / "first", key).wait_ready()
    second = replica_of(first.url, tmp_path / "second", key).wait_ready()
    assert_equal(primary, second)
    holder = second.client(capability["token"])
    assert len(holder.get("/v1/facts")["facts"]) == 2
    revoked = engramlog("capability", "revoke", capability["token_id"], "--data", primary.data)
    assert revoked.returncode == 0, revoked.stderr

    def ended() -> bool:
        try:
            holder.get("/v1/facts")
        except ClientError as fault:
            return fault.code == "token_revoked"
        return False

    until(ended)
    with pytest.raises(ClientError) as refused:
        second.client().post("/v1/capabilities", {"subject": "agent:y"})
    assert refused.value.code == "replica_read_only"


def test_an_erasure_on_the_primary_reaches_its_replicas(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    secret = "stigmem://test.example/person/unforgettable"
    write(primary.client(), 0, 6)
    primary.client().post("/v1/facts", fact(7, entity=secret))
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert_equal(primary, replica)
    erased = engramlog("erase", "entity", secret, "--reason", "request", "--data", primary.data)
    assert erased.returncode == 0, erased.stderr
    assert_equal(primary, replica)
    fresh = replica_of(primary.url, tmp_path / "fresh", key).wait_ready()
    assert_equal(primary, fresh)
    for node in (replica, fresh):
        assert node.client().get(f"/v1/facts?entity={secret}&include_retracted=true")["facts"] == []
        node.stop()
        verified = engramlog("replay", "verify", "--data", node.data)
        assert verified.returncode == 0, verified.stderr
    for folder in ("replica", "fresh"):
        served = replica_of(primary.url, tmp_path / folder, key).wait_ready()
        assert_equal(primary, served)
        served.stop()


def admin(node: NodeProcess) -> Client:
    return Client(node.control.url, node.control.token)


def snapshot(node: NodeProcess) -> int:
    """Let a node take a snapshot; returns its position."""
    with admin(node) as client:
        client.post("/v1/admin/snapshots")
        until(lambda: client.get("/v1/admin/snapshots")["job"]["status"] == "done")
        return int(client.get("/v1/admin/snapshots")["snapshots"][0]["position"])


def held(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "snapshots").glob("*"))


def test_a_new_replica_starts_from_a_snapshot(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    write(primary.client(), 0, 20)
    taken = snapshot(primary)
    write(primary.client(), 20, 10)
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert held(replica.data) == [f"{taken:012d}.db", f"{taken:012d}.json"]
    assert_equal(primary, replica)
    write(primary.client(), 30, 5)
    assert_equal(primary, replica)
    with admin(replica) as client:  # and its tables equal the log's
        client.post("/v1/admin/rebuild", {"from_scratch": True})
        until(lambda: client.get("/v1/admin/rebuild")["status"] != "running")
        assert client.get("/v1/admin/rebuild")["result"]["compared"]


@pytest.mark.parametrize("damage", ["file", "document"])
def test_the_log_replaces_an_invalid_snapshot(tmp_path: Path, damage: str) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    write(primary.client(), 0, 20)
    name = primary.data / "snapshots" / f"{snapshot(primary):012d}"
    if damage == "file":
        file = name.with_suffix(".db")
        file.write_bytes(file.read_bytes()[:-4096] + bytes(4096))
    else:
        document = json.loads(name.with_suffix(".json").read_text())
        document["tables"]["facts"] = "00" * 32
        name.with_suffix(".json").write_text(json.dumps(document))
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert "passed over" in replica.errors()
    assert held(replica.data) == []
    assert_equal(primary, replica)


def test_a_replicas_snapshots_do_not_keep_erased_facts(tmp_path: Path) -> None:
    primary = started(tmp_path / "primary").wait_ready()
    key = replica_key(primary)
    client = primary.client()
    secret = "zanzibar-quokka-9911"
    told = client.post("/v1/facts", fact(1, value={"type": "string", "v": secret}))
    snapshot(primary)
    replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
    assert held(replica.data) != []
    with admin(primary) as owner:
        owner.post("/v1/erasures", {"fact_ids": [told["id"]], "reason": "request"})
    until(lambda: held(primary.data) == [] == held(replica.data))
    for folder in (primary.data, replica.data):
        until(lambda folder=folder: not _holding(folder, secret.encode()))


def _holding(folder: Path, needle: bytes) -> list[str]:
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file() and needle in path.read_bytes():
                found.append(path.name)
        except FileNotFoundError:
            continue
    return found
