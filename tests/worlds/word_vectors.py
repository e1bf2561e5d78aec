"""A provider whose vectors are the words of a text, and nodes that use it."""

from typing import Any

from tests.worlds.live import LiveNode
from tests.worlds.provider_double import DIMENSIONS, words_vector
from tests.worlds.provider_servers import Server
from tests.worlds.waiting import until

OTHER_DIMENSIONS = 32


def words_api(body: dict[str, Any]) -> Any:
    """Ollama's API; texts with common words get similar vectors."""
    size = OTHER_DIMENSIONS if body["model"] == "other" else DIMENSIONS
    vectors = [words_vector(text)[:size].tolist() for text in body["input"]]
    return {"model": body["model"], "embeddings": vectors}


def settings_for(server: Server, **changes: Any) -> dict[str, Any]:
    return {
        "embed_provider": "ollama",
        "embed_model": "words",
        "embed_dimensions": DIMENSIONS,
        "embed_url": server.url,
        **changes,
    }


def embedded(live: LiveNode) -> None:
    """Wait until every fact has its vector."""
    embeddings = live.node.embeddings
    assert embeddings is not None

    def done() -> bool:
        status = embeddings.status()
        assert status is not None
        return not status.lag and not status.waiting

    until(done)
