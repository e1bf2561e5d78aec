"""From a request to store or merge memories to the writer's command."""

import numpy as np
from msgspec import Struct

from engramlog.api.commands.assertions import assertion_of, check_source
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import plain
from engramlog.api.schemas.memory import MemoryRequest
from engramlog.projections.arrays import I32
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.memories.deduplication_rules import (
    CONFIDENTIAL_MAX,
    TextLikeness,
    is_ownerless,
)
from engramlog.projections.writing.commands import AssertFact
from engramlog.projections.writing.comparison_window import confidential_memories, recent_memories
from engramlog.projections.writing.memory_commands import MergeMemories, StoreMemory

NO_VECTORS = "no embeddings: paraphrases were not compared"
UNREAD = "the embedding model does not know the script: paraphrases were not compared"


class MemoryToStore(Struct, frozen=True):
    """A command, and the warnings for the answer."""

    command: StoreMemory
    warnings: list[str]


def refusal_of(request: MemoryRequest, owner: str) -> str | None:
    """Why abmind would not store a memory: an answer, not an error."""
    if not request.content.strip():
        return "content is empty"
    if is_ownerless(owner):
        return f"{owner!r} owns no memories: name the user"
    return None


async def memory_of(context: RequestContext, request: MemoryRequest, owner: str) -> MemoryToStore:
    """The command of one memory; makes the vectors for its comparisons first. Raises ApiError as
    ``assertion_of``."""
    assertion = assertion_of(context, request.fact(owner))
    fact = assertion.command
    likeness, warnings = await _likeness(context, fact)
    command = StoreMemory(
        fact=fact,
        rights=context.authorization.reading(),
        supersede=request.supersede,
        likeness=likeness,
    )
    return MemoryToStore(command, assertion.warnings + warnings)


async def _likeness(
    context: RequestContext, fact: AssertFact
) -> tuple[TextLikeness | None, list[str]]:
    embeddings = context.node.embeddings
    semantics = None if embeddings is None else embeddings.semantics
    if semantics is None:
        return None, [NO_VECTORS]
    if not semantics.reads(fact.value.v):
        return None, [UNREAD]
    try:
        await context.in_pool(lambda: _make_vectors(context, fact, semantics))
    except EmbeddingError as fault:
        return None, [f"{NO_VECTORS} ({fault})"]
    return semantics.contents, []


def _make_vectors(context: RequestContext, fact: AssertFact, semantics: Semantics) -> None:
    """Make the vectors of the new text and of those it may paraphrase. Facts written before the
    command runs make their own."""
    text = fact.value.v
    semantics.contents.make([text])
    view = context.view()
    moment = context.moment(view)
    rights = context.authorization.reading()
    place = (fact.source, fact.scope, fact.garden_id)
    slots = recent_memories(view, rights, moment, *place)
    secret: I32 = np.array(confidential_memories(view, rights, moment), dtype=np.int32)
    slots += _likest(semantics, text, secret)
    semantics.contents.make([text, *(view.value_text_of(slot) for slot in slots)])


def _likest(semantics: Semantics, text: str, slots: I32) -> list[int]:
    """The most similar of many, by recall's vectors; slots without a vector come last."""
    if len(slots) > CONFIDENTIAL_MAX:
        vector = semantics.contents.vector(text)
        assert vector is not None
        cosines, present = semantics.vectors.cosines(vector, slots)
        order = np.argsort(-np.where(present, cosines, -1.0), kind="stable")
        slots = slots[order[:CONFIDENTIAL_MAX]]
    chosen: list[int] = slots.tolist()
    return chosen


def merge_of(context: RequestContext, ids: list[str]) -> MergeMemories:
    """The command of a merge. Raises ApiError 404 if a memory is not visible; 403 if the caller may
    not end it."""
    view = context.view()
    rights = context.authorization.reading()
    shown = readable_of(view, rights.alone(), ids)
    if len(shown) < len(ids):
        raise plain("fact_not_found")
    for slot in shown.values():
        check_source(context, view.sources.text(int(view.source[slot])))
    return MergeMemories(fact_ids=(ids[0], ids[1]), rights=rights)
