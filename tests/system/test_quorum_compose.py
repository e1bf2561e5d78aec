"""The set-up of ``packaging/quorum``: its scripts and commands, run on servers of this machine."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.worlds.nodes_over_one_log import ask
from tests.worlds.postgres_servers import Servers, wait_until
from tests.worlds.processes import NodeProcess, environment, fact

QUORUM = Path(__file__).parents[2] / "packaging/quorum"
PASSWORD = "a ${word} 'with' \"signs\""
Compose = Mapping[str, Any]


@pytest.fixture(scope="module")
def services() -> Compose:
    return yaml.safe_load((QUORUM / "compose.yaml").read_text("utf-8"))["services"]


def test_every_service_names_what_it_waits_for_and_where_it_keeps_its_data(
    services: Compose,
) -> None:
    volumes = yaml.safe_load((QUORUM / "compose.yaml").read_text("utf-8"))["volumes"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in volumes or (QUORUM / source).is_file(), (name, volume)
    asked = services["first"]["environment"]["STIGMEM_LOG"]
    assert asked == "postgresql://node@one,two,three/engram"


def command_of(service: Mapping[str, Any], places: Mapping[str, str]) -> list[str]:
    """The container's command, with this machine's names."""
    words = [*service["entrypoint"], *service["command"]]
    for written, here in places.items():
        words = [word.replace(written, here) for word in words]
    return words


def test_the_scripts_make_a_quorum_and_two_nodes_over_one_log(
    services: Compose, own_postgres_servers: Servers, tmp_path: Path
) -> None:
    password = {"PGPASSWORD": PASSWORD}
    one, two, three = own_postgres_servers.from_scripts(QUORUM, PASSWORD)
    with psycopg.connect(one.url("engram", "engram"), password=PASSWORD, autocommit=True) as db:
        wait_until(lambda: _followers(db) == {"two", "three"}, "both standbys follow")
        (names,) = db.execute("SHOW synchronous_standby_names").fetchone() or ("",)
        assert names == "ANY 1 (one, two, three)"
    hosts = ",".join(f"127.0.0.1:{each.port}" for each in (one, two, three))
    log = f"postgresql://node@{hosts}/engram"
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    env = {**environment(), **password, "PATH": f"{Path(sys.executable).parent}:{os.defpath}"}
    places = {"@one/": f"@127.0.0.1:{one.port}/", "/data": str(first)}
    for _ in range(2):  # the second time does nothing
        prepared = command_of(services["prepare"], places)
        subprocess.run(prepared, env=env, check=True)
    with ExitStack() as stack:
        nodes: list[NodeProcess] = []
        for data in (first, second):
            if data is second:
                copied = {"/data": str(second), "/first": str(first)}
                subprocess.run(command_of(services["identity"], copied), env=env, check=True)
            node = NodeProcess(data, "--no-auth", "--log", log, env=password)
            stack.callback(node.stop)
            nodes.append(node.wait_ready())
        status, body, headers = ask(nodes[0], "POST", "/v1/facts", fact(1))
        assert status == 201, body
        position = headers["X-Engramlog-Position"]
        status, seen, _ = ask(nodes[1], "GET", f"/v1/facts/{body['id']}?min_position={position}")
        assert (status, seen["cid"]) == (200, body["cid"])


def _followers(db: psycopg.Connection[tuple[Any, ...]]) -> set[str]:
    return {name for (name,) in db.execute("SELECT application_name FROM pg_stat_replication")}
