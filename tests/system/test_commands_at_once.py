"""Several commands at once on a directory that no node serves: each waits for its turn."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engramlog.api.cli.opening import node_or_client, open_node
from engramlog.api.client.client import Client
from engramlog.api.node.node import Node
from engramlog.api.settings import Settings
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.errors import DirectoryLocked
from tests.worlds.processes import engramlog, serving

COMMANDS = 4


def test_every_command_of_several_at_once_writes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    texts = [f"Ann has lived in town {n}" for n in range(COMMANDS)]
    with ThreadPoolExecutor(COMMANDS) as pool:
        done = list(pool.map(lambda text: engramlog("remember", text, "--data", data), texts))
    assert [each.returncode for each in done] == [0] * COMMANDS, [each.stderr for each in done]
    found = engramlog("facts", "--data", data, "--json")
    assert all(text in json.dumps(json.loads(found.stdout)) for text in texts)


def test_a_command_reaches_a_node_that_was_starting_meanwhile(tmp_path: Path) -> None:
    data = tmp_path / "data"
    attempts: list[int] = []

    def locked() -> Node:
        attempts.append(1)
        if len(attempts) < 3:  # the node has the lock, and no control file yet
            raise DirectoryLocked("held")
        return open_node(settings)

    settings = Settings(data_dir=data)
    node = node_or_client(settings, locked)
    assert isinstance(node, Node)
    node.close()
    with serving(data, "--no-auth"):
        client = node_or_client(settings, lambda: open_node(settings))
        assert isinstance(client, Client)
        client.get("/v1/control/ping")
        client.close()


def test_a_holder_that_never_answers_is_named(tmp_path: Path) -> None:
    held = HeldDirectory.open(tmp_path / "data")
    settings = Settings(data_dir=tmp_path / "data")
    try:
        with pytest.raises(DirectoryLocked, match=r"in use by .* which does not answer commands$"):
            node_or_client(settings, lambda: open_node(settings), wait_seconds=0)
    finally:
        held.close()
