"""A provider of embeddings that takes requests and never answers holds up no stop."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from tests.worlds.processes import NodeProcess, fact
from tests.worlds.waiting import until


@pytest.fixture
def hung() -> Iterator[tuple[str, list[socket.socket]]]:
    """The address of a server that only accepts connections, and the connections."""
    listening = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                taken.append(listening.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", taken
    for each in (listening, *taken):
        each.close()


def test_a_node_stops_while_facts_and_cards_wait_for_vectors(
    tmp_path: Path, hung: tuple[str, list[socket.socket]]
) -> None:
    url, taken = hung
    settings = {
        "STIGMEM_EMBED_ENABLED": "true",
        "STIGMEM_EMBED_PROVIDER": "ollama",
        "STIGMEM_EMBED_URL": url,
    }
    node = NodeProcess(tmp_path / "data", "--no-auth", env=settings).wait_ready()
    client = node.client()
    client.post("/v1/facts", fact(1, entity="user:ann"))
    client.get("/v1/cards/user:ann", {"scope": "company"})
    assert until(lambda: len(taken) >= 2)
    assert node.stop() == 0  # within a minute; each request may try for five
    opened = Node.open(tmp_path / "data")
    assert len(opened.reader.image.facts.slot_of) == 1
    opened.close()
