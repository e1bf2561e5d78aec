"""Private worlds whose facts have vectors of the bundled model."""

from engramlog.projections.embedding.settings import EmbeddingSettings
from tests.worlds.private_worlds import Life
from tests.worlds.waiting import until


def embedded_to_the_end(life: Life) -> bool:
    """Whether every fact has its vector, after a wait. Asks the node and not a route, so that both
    lives answer as many requests."""
    life.node.embed(EmbeddingSettings(provider="minilm"))
    embeddings = life.node.embeddings
    assert embeddings is not None
    return until(lambda: (status := embeddings.status()) is not None and not status.lag)
