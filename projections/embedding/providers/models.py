"""The known models: their dimensions and their requirements."""

from msgspec import Struct

from engramlog.projections.embedding.errors import UnknownModel, WrongDimensions
from engramlog.projections.embedding.providers.provider import Purpose


class ModelCard(Struct, frozen=True):
    """One model.

    Attributes:
        dimensions: of its vectors.
        floor: fewest dimensions its vectors may be cut to; None if cutting spoils them.
        centred: whether to subtract the mean of a vector's numbers before cutting, which equals
            the layer normalisation that the model's authors ask for.
        document_prefix, query_prefix: what the model needs before a text.
        latin_only: whether it knows no words of other scripts, as those with the word pieces of
            English BERT.
    """

    dimensions: int
    floor: int | None = None
    centred: bool = False
    document_prefix: str = ""
    query_prefix: str = ""
    latin_only: bool = False

    def prefix(self, purpose: Purpose) -> str:
        """The prefix of a text."""
        return self.query_prefix if purpose == "query" else self.document_prefix


MODELS: dict[str, dict[str, ModelCard]] = {
    "ollama": {
        "nomic-embed-text": ModelCard(
            768,
            floor=64,
            centred=True,
            document_prefix="search_document: ",
            query_prefix="search_query: ",
            latin_only=True,
        ),
        "mxbai-embed-large": ModelCard(
            1024,
            floor=512,
            query_prefix="Represent this sentence for searching relevant passages: ",
            latin_only=True,
        ),
    },
    "openai": {"text-embedding-3-small": ModelCard(1536, floor=512)},
    "voyage": {"voyage-3-lite": ModelCard(512)},
    "minilm": {
        "all-MiniLM-L6-v2-int8": ModelCard(384, latin_only=True),
        "all-MiniLM-L6-v2": ModelCard(384, latin_only=True),
    },
}
"""By provider; the first is the provider's default."""


def card_of(provider: str, model: str, dimensions: int | None = None) -> ModelCard:
    """The card of a model. ``dimensions``: as the operator declares them; needed for a model not
    listed here. Raises UnknownModel: not listed, and no dimensions declared; WrongDimensions:
    listed with others."""
    known = MODELS.get(provider, {}).get(model.removesuffix(":latest"))
    if known is None and dimensions is not None:
        return ModelCard(dimensions)
    if known is None:
        listed = ", ".join(MODELS.get(provider, {})) or "none"
        raise UnknownModel(
            f"{provider} model {model!r} is not one known here ({listed}): declare its dimensions"
        )
    if dimensions not in (None, known.dimensions):
        raise WrongDimensions(f"{model} has {known.dimensions} dimensions, not {dimensions}")
    return known
