"""Memories over HTTP: facts written in abmind's manner, and answered in its shape."""

import numpy as np
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.commands.memories import MemoryToStore, memory_of, merge_of, refusal_of
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import plain
from engramlog.api.http.routing import Routes
from engramlog.api.routes.facts.facts import answering_slot, asserted_event, written_record
from engramlog.api.schemas.memory import MemoryRequest, MergeRequest
from engramlog.projections.arrays import I32
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.writing.commands import Done

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
    refusal = refusal_of(request, owner)
    if refusal is not None:
        return answer(MemoryStored(stored=False, memories_count=0, error=refusal))
    memory = await memory_of(call, request, owner)
    done = await call.do(memory.command, idempotency=call.idempotency(), atomic=True)
    if asserted_event(done) is None:
        return answer(_skipped(call, memory, done))
    record = written_record(call, done, memory.warnings)
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


def _skipped(call: Call, memory: MemoryToStore, done: Done) -> MemoryStored:
    """The answer if no fact was stated, because a memory with the same text exists."""
    view = call.view()
    slot = answering_slot(view, done)
    equal = slot is not None and view.value_text_of(slot) == memory.command.fact.value.v
    body = MemoryStored(
        stored=True,
        memories_count=0,
        error=DUPLICATE if equal else PARAPHRASE,
        id=done.fact_id,
        position=None,
        superseded=[],
        warnings=memory.warnings,
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
    command = merge_of(call, request.ids)
    await call.service.tracker.flush()  # recalls outside the log count too
    done = await call.do(command, idempotency=call.idempotency(), atomic=True)
    view, moment = call.at()
    slot = answering_slot(view, done)
    if slot is None:
        raise plain("fact_not_found")
    chosen: I32 = np.array([slot], dtype=np.int32)
    return MergedMemories(
        kept=str(done.fact_id),
        ended=list(done.retracted),
        restated=asserted_event(done) is not None,
        recall_count=int(view.access_count(chosen, moment)[0]),
        position=done.position,
        fact=call.records(view, chosen, moment)[0],
    )
