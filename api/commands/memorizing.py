"""From a request to store or merge memories to the writer's intent."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from api.call import Call
from api.commands.asserting import assertion_of, check_source
from api.commands.gardening import member_of
from api.errors import plain
from api.schemas.memories import MemoryRequest
from projections.arrays import I32
from projections.authorization import Authorization
from projections.embedding.errors import EmbeddingError
from projections.embedding.semantics import Semantics
from projections.intents import AssertFact, MergeMemories, StoreMemory
from projections.memory_rules import CONFIDENTIAL_MAX, Likeness, is_ownerless
from projections.memory_window import confidential_memories, recent_memories
from projections.selection import known

NO_VECTORS = "no embeddings: paraphrases were not looked for"


class Memory(Struct, frozen=True):
    """An intent, and what the answer should warn of."""

    intent: StoreMemory
    warnings: list[str]


def refusal_of(request: MemoryRequest, owner: str) -> str | None:
    """Why a memory is not stored, in abmind's manner: an answer, and no fault."""
    if not request.content.strip():
        return "content is empty"
    if is_ownerless(owner):
        return f"{owner!r} owns no memories: name the user"
    return None


async def memory_of(call: Call, request: MemoryRequest, owner: str) -> Memory:
    """The intent of one memory, with the vectors that it is to be compared by made.

    Raises:
        ApiError: as ``assertion_of``.
    """
    assertion = assertion_of(call, request.fact(owner))
    fact = assertion.intent
    likeness, warnings = await _likeness(call, fact)
    intent = StoreMemory(
        fact=fact,
        rights=_reading(call),
        supersede=request.supersede,
        likeness=likeness,
    )
    return Memory(intent, assertion.warnings + warnings)


def _reading(call: Call) -> Authorization:
    """What the caller may read: nothing, where the key only writes."""
    rights = call.authorization
    return rights if rights.may("read") else rights.narrowed(frozenset())


async def _likeness(call: Call, fact: AssertFact) -> tuple[Likeness | None, list[str]]:
    embeddings = call.node.embeddings
    semantics = None if embeddings is None else embeddings.semantics
    if semantics is None:
        return None, [NO_VECTORS]
    try:
        await call.in_pool(lambda: _make_vectors(call, fact, semantics))
    except EmbeddingError as fault:
        return None, [f"{NO_VECTORS} ({fault})"]
    return semantics.contents, []


def _make_vectors(call: Call, fact: AssertFact, semantics: Semantics) -> None:
    """Have the vectors of the new text and of those it may paraphrase. What comes between
    here and the writer has made its own."""
    text = fact.value.v
    semantics.contents.make([text])
    view = call.view()
    moment = call.moment(view)
    rights = _reading(call)
    place = (fact.source, fact.scope, fact.garden_id)
    slots = recent_memories(view, rights, moment, *place)
    secret: I32 = np.array(confidential_memories(view, rights, moment), dtype=np.int32)
    slots += _likest(semantics, text, secret)
    semantics.contents.make([text, *(view.said_by(slot) for slot in slots)])


def _likest(semantics: Semantics, text: str, slots: I32) -> list[int]:
    """The likest of many, by the vectors that recall has of them: those without one last."""
    if len(slots) > CONFIDENTIAL_MAX:
        vector = semantics.contents.vector(text)
        assert vector is not None
        cosines, present = semantics.cosines(vector, slots)
        order = np.argsort(-np.where(present, cosines, -1.0), kind="stable")
        slots = slots[order[:CONFIDENTIAL_MAX]]
    chosen: list[int] = slots.tolist()
    return chosen


def merge_of(call: Call, ids: list[str]) -> MergeMemories:
    """The intent of a merge.

    Raises:
        ApiError: 404 where a memory is not there for the caller; 403 where it is not theirs to
            speak for.
    """
    view = call.view()
    named = [call.node.reader.slot_of(fact) for fact in ids]
    slots: I32 = np.array([s for s in named if s is not None and s < view.count], dtype=np.int32)
    rights = _reading(call)
    shown = known(view, rights.alone(), call.moment(view), slots)
    if len(shown) < len(ids):
        raise plain("fact_not_found")
    for slot in shown.tolist():
        check_source(call, view.sources.text(int(view.source[slot])))
    return MergeMemories(fact_ids=(ids[0], ids[1]), rights=rights, member=member_of(call))
