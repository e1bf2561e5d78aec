"""A world of facts to recall, with vectors of their words."""

import numpy as np

from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.embedding.embedder import Embedder
from engramlog.projections.embedding.providers.models import ModelCard
from engramlog.projections.embedding.recipe import composed
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.in_memory import Vectors
from tests.worlds.provider_double import CARD, SPACE, WordsProvider, words_vector
from tests.worlds.recall_world import World


def embedded(
    world: World,
    provider: WordsProvider,
    cache: EmbeddingCache,
    without: tuple[int, ...] = (),
    card: ModelCard = CARD,
) -> Semantics:
    """The vectors of a world's facts for recall, except some."""
    vectors = Vectors(SPACE.dimensions)
    view = world.view()
    for slot, row in enumerate(world.rows(view.from_position.tolist())):
        if slot not in without:
            text = composed(row.entity, row.relation, row.value_v)
            vectors.put(np.array([slot], dtype=np.int32), words_vector(text)[None])
    return Semantics(Embedder(provider, SPACE, card, cache), vectors, min_confidence=0.1)
