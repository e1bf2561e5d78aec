"""Memories over HTTP: facts written in abmind's manner, and answered in its shape."""

import numpy as np
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.commands.assertions import assertion_of, check_source
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import existing, plain
from engramlog.api.http.routing import Routes
from engramlog.api.routes.facts.facts import answering_slot, asserted_event, written_record
from engramlog.api.schemas.memory import MemoryRequest, MergeRequest
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.arrays import I32
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.memories.deduplication_rules import (
    CONFIDENTIAL_MAX,
    TextLikeness,
    is_ownerless,
)
from engramlog.projections.writing.commands import Done
from engramlog.projections.writing.comparison_window import confidential_memories, recent_memories
from engramlog.projections.writing.memory_commands import MergeMemories, StoreMemory

routes = Routes("facts")


class MemoryStored(Struct, rename={"memories_count": "memoriesCount"}):
    """abmind's answer, and the memory's state here. If no fact was stated, ``error`` says why,
    and ``id`` is the existing equal memory's. If nothing is stored, only the first three fields
    appear."""

    stored: bool
    memories_count: int
    error: str | UnsetType = UNSET
    id: str | UnsetType | None = UNSET
    position: int | UnsetType | None = UNSET
    classification: int | UnsetType = UNSET
    superseded: list[str] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    fact: FactRecord | UnsetType = UNSET


class MergedMemories(Struct):
    """The kept memory, the ended ones, and its count of recalls. ``restated``: it is a new fact."""

    kept: str
    ended: list[str]
    restated: bool
    recall_count: int
    position: int | None
    fact: FactRecord


DUPLICATE = "duplicate (skipped)"
PARAPHRASE = "paraphrase duplicate (skipped)"


@routes.add(
    "POST /v1/memories",
    permission="write",
    answers={200: MemoryStored, 201: MemoryStored},
    errors=(404,),
    headers=("Stigmem-Session", "Idempotency-Key"),
)
async def store_memory(call: Call, request: MemoryRequest) -> web.Response:
    """Store a memory, unless it repeats a recent one of its owner. Answers 201 for a new one, else
    200 with the reason.

    Raises:
        ApiError: as for any fact.
    """
    owner = stored_uri(request.owner(call.caller.principal))
    refusal = _refusal(request, owner)
    if refusal is not None:
        return answer(MemoryStored(stored=False, memories_count=0, error=refusal))
    assertion = assertion_of(call, request.fact(owner))
    likeness, unlike = await _likeness(call, assertion.command.fact)
    warnings = assertion.warnings + unlike
    command = StoreMemory(
        assertion=assertion.command,
        rights=call.authorization.reading(),
        supersede=request.supersede,
        likeness=likeness,
    )
    done = await call.do(command, idempotency=call.idempotency(), atomic=True)
    if asserted_event(done) is None:
        return answer(_skipped(call, assertion.command.fact.value.v, done, warnings))
    record = written_record(call, done, warnings)
    body = MemoryStored(
        stored=True,
        memories_count=1,
        id=record.id,
        position=record.position,
        classification=(PLAIN if record.attributes is UNSET else record.attributes).classification,
        superseded=list(done.retracted),
        warnings=record.warnings,
        fact=record,
    )
    return answer(body, 201)


def _skipped(call: Call, text: str, done: Done, warnings: list[str]) -> MemoryStored:
    """The answer if no fact was stated, because a memory with the same text exists."""
    view = call.view()
    slot = answering_slot(view, done)
    equal = slot is not None and view.value_text_of(slot) == text
    body = MemoryStored(
        stored=True,
        memories_count=0,
        error=DUPLICATE if equal else PARAPHRASE,
        id=done.fact_id,
        position=None,
        superseded=[],
        warnings=warnings,
    )
    if slot is not None:
        body.position = int(view.from_position[slot])
        body.classification = int(view.classification[slot])
    return body


@routes.add(
    "POST /v1/memories/merge",
    permission="write",
    errors=(404,),
    headers=("Idempotency-Key",),
)
async def merge_memories(call: Call, request: MergeRequest) -> MergedMemories:
    """Replace the older of two memories by the newer; answers its record.

    Raises:
        ApiError: 404 if one is not visible; 403 if one is not the caller's; 409 if one has ended;
            422 if owner or place differ.
    """
    ids, before, rights = request.ids, call.view(), call.authorization.reading()
    shown = readable_of(before, rights.alone(), ids)
    if len(shown) < len(ids):
        raise plain("fact_not_found")
    for slot in shown.values():
        check_source(call, before.sources.text(int(before.source[slot])))
    command = MergeMemories(fact_ids=(ids[0], ids[1]), rights=rights)
    await call.service.tracker.flush()  # recalls outside the log count too
    done = await call.do(command, idempotency=call.idempotency(), atomic=True)
    view, moment = call.at()
    slot = existing(answering_slot(view, done), "fact_not_found")
    chosen: I32 = np.array([slot], dtype=np.int32)
    return MergedMemories(
        kept=str(done.fact_id),
        ended=list(done.retracted),
        restated=asserted_event(done) is not None,
        recall_count=int(view.access_count(chosen, moment)[0]),
        position=done.position,
        fact=call.records(view, chosen, moment)[0],
    )


NO_VECTORS = "no embeddings: paraphrases were not compared"
UNREAD = "the embedding model does not know the script: paraphrases were not compared"


def _refusal(request: MemoryRequest, owner: str) -> str | None:
    """Why abmind would not store a memory: an answer, not an error."""
    if not request.content.strip():
        return "content is empty"
    if is_ownerless(owner):
        return f"{owner!r} owns no memories: name the user"
    return None


async def _likeness(call: Call, fact: FactAsserted) -> tuple[TextLikeness | None, list[str]]:
    embeddings = call.node.embeddings
    semantics = None if embeddings is None else embeddings.semantics
    if semantics is None:
        return None, [NO_VECTORS]
    if not semantics.reads(fact.value.v):
        return None, [UNREAD]
    try:
        await call.in_pool(lambda: _make_vectors(call, fact, semantics))
    except EmbeddingError as fault:
        return None, [f"{NO_VECTORS} ({fault})"]
    return semantics.contents, []


def _make_vectors(call: Call, fact: FactAsserted, semantics: Semantics) -> None:
    """Make the vectors of the new text and of those it may paraphrase. Facts written before the
    command runs make their own."""
    text = fact.value.v
    semantics.contents.make([text])
    view = call.view()
    moment = call.moment(view)
    rights = call.authorization.reading()
    slots = recent_memories(view, rights, moment, fact)
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
