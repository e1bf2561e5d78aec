"""The embedding of facts: the worker's state, and re-indexing with another model."""

from typing import Annotated, Literal, Self

from msgspec import UNSET, Struct, UnsetType
from pydantic import Field, model_validator

from engramlog.api.answers.same_fields import shaped
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded, invalid
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks.jobs import Reindex
from engramlog.api.schemas.values import Model
from engramlog.projections.embedding.choosing import space_named
from engramlog.projections.embedding.errors import UnknownModel, WrongDimensions
from engramlog.projections.embedding.settings import EmbeddingSettings

routes = Routes("node")

Dimensions = Annotated[int, Field(strict=True, ge=1, le=65_536)]


class ReindexBody(Model, extra="forbid", protected_namespaces=()):
    """The model to index with; all null: the configured one."""

    provider: Literal["auto", "ollama", "openai", "voyage", "minilm"] | None = None
    model: str | None = Field(default=None, min_length=1, max_length=200)
    dimensions: Dimensions | None = None
    truncated_dimensions: Dimensions | None = None

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        rest = (self.model, self.dimensions, self.truncated_dimensions)
        if self.provider is None and any(each is not None for each in rest):
            raise ValueError("model, dimensions and truncated_dimensions need a provider")
        return self


class EmbeddingRecord(Struct):
    """The model, its progress, and the last re-indexing."""

    enabled: bool = False
    provider: str = "none"
    model: str | None = None
    dimensions: int | None = None
    truncated_dimensions: int | None = None
    position: int = 0
    lag: int = 0
    waiting: int = 0
    skipped: int = 0
    vectors: int = 0
    vectors_memory_bytes: int = 0
    error: str | None = None
    reindex: Reindex | UnsetType = UNSET


@routes.add("GET /v1/embeddings", permission="admin")
async def embedding_status(call: Call) -> EmbeddingRecord:
    """The model in use, the progress of embedding, and the last re-indexing."""
    record = status_of(call)
    record.reindex = call.service.reindexing.record()
    return record


@routes.add("POST /v1/embeddings/reindex", permission="admin", body_required=False, status=202)
async def start_reindex(call: Call, request: ReindexBody) -> Reindex:
    """Embed all facts with another model; the old vectors serve until the new ones are complete."""
    settings = target_of(call, request)
    if call.node.embeddings is None or settings.provider == "none":
        raise coded("embeddings_off", "this node does not embed facts; name a provider")
    _check(settings)
    call.service.reindexing.begin(lambda progress: call.node.reindex(settings, progress))
    return call.service.reindexing.record()


def _check(settings: EmbeddingSettings) -> None:
    """Refuse impossible settings at once: WrongDimensions, or 422 for an unknown model."""
    if settings.provider in ("auto", "none"):
        return
    try:
        space_named(settings)
    except WrongDimensions:
        raise
    except UnknownModel as fault:
        raise invalid("unknown_model", ["body", "model"], str(fault)) from fault


def target_of(call: Call, request: ReindexBody) -> EmbeddingSettings:
    """The settings to index with: the request's, else the configured ones. The address is always
    the configured one, and only for its own provider."""
    own = call.service.settings.embedding
    if request.provider is None:
        return own
    url = own.url if request.provider == own.provider else None
    return shaped(request, EmbeddingSettings, url=url, min_confidence=own.min_confidence)


def status_of(call: Call) -> EmbeddingRecord:
    """The state of embeddings for readiness, discovery and metrics."""
    embeddings = call.node.embeddings
    space = None if embeddings is None else embeddings.space
    status = None if embeddings is None else embeddings.status()
    if space is None or status is None:
        return EmbeddingRecord()
    return shaped(
        status,
        EmbeddingRecord,
        enabled=True,
        provider=space.provider,
        model=space.model,
        dimensions=space.dimensions,
        truncated_dimensions=space.truncated,
        vectors_memory_bytes=status.memory_bytes,
    )
