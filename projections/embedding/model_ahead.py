"""The bundled model, loading beside all that opening a directory loads, which takes as long."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from engramlog.projections.embedding.providers.bundled.model_process import started_ahead
from engramlog.projections.embedding.providers.models import MODELS
from engramlog.projections.embedding.recipe import bundled_model
from engramlog.projections.embedding.settings import EmbeddingSettings


def model_ahead(
    settings: EmbeddingSettings, folder: Path, *, begins: bool
) -> AbstractContextManager[None]:
    """Starts the model that a data directory uses, for embeddings that the ``with`` block opens.
    ``begins``: the directory is new, and gets its model now."""
    if settings.provider == "none":
        return nullcontext()
    model = bundled_model(folder)
    if begins and settings.provider in ("auto", "minilm") and settings.model is None:
        model = next(iter(MODELS["minilm"]))
    return nullcontext() if model is None else started_ahead(model)
