"""Beginning an erasure, and saying where one stands."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import numpy as np

from api.call import Call
from api.commands.asserting import stored_uri
from api.errors import coded
from api.records import Record
from api.schemas.erasures import ErasureRequest
from eventlog.identifiers import IdentifierSource, id_text
from projections.erasures import ErasureRow, LegalHold
from projections.intents import EraseFacts
from projections.moment import format_instant
from replay.cleaning import receipts_of

TOLD_LENGTH_MIN = 4
"""Shorter values are not looked for in the questions of recalls: they are in too many."""

_identifiers = IdentifierSource()


async def erase(call: Call, request: ErasureRequest) -> Record:
    """Erase, and wait for the cleaning where it is asked for.

    Raises:
        ApiError: 404 ``fact_not_found``, 403 ``scope_forbidden``, 423 ``legal_hold``.
    """
    service = call.service
    await service.tracker.flush()
    entity = None if request.entity is None else stored_uri(request.entity)
    intent = EraseFacts(
        erasure_id=id_text(_identifiers.next(call.node.clock.now_us())),
        fact_ids=tuple(request.fact_ids),
        entity=entity,
        mentions=request.mentions,
        derived=request.derived,
        episodes=request.episodes,
        scopes=call.authorization.scopes,
        reason=request.reason,
        events=tuple(await asyncio.to_thread(_telling, call, request.fact_ids, entity)),
    )
    done = await call.do(intent)
    service.cleaning.wake()
    if request.wait:
        await service.cleaning.wait(intent.erasure_id, request.timeout_s)
    row = call.node.reader.erasure(intent.erasure_id)
    assert row is not None
    detail: dict[str, Any] = done.detail
    return erasure_record(call, row) | {
        "fact_ids": detail["fact_ids"],
        "derived_fact_ids": detail["derived_fact_ids"],
        "episode_ids": detail["episode_ids"],
    }


def _telling(call: Call, fact_ids: list[str], entity: str | None) -> list[str]:
    """Events of recall receipts whose question or request repeats what is to be erased. Those
    that returned an erased fact are found while cleaning."""
    reader = call.node.reader
    view = reader.pin()
    number = None if entity is None else view.entities.number(entity)
    about: list[int] = [] if number is None else view.entity_slots(number).tolist()
    slots: list[int] = [
        *about,
        *(slot for fact in fact_ids if (slot := reader.slot_of(fact)) is not None),
    ]
    places = np.asarray(slots, dtype=np.int32)
    told = {row.value_v for row in reader.rows(view.from_position[places].tolist())}
    if entity is not None:
        told.add(entity)
    told = {text.casefold() for text in told if len(text) >= TOLD_LENGTH_MIN}
    if not told:
        return []

    def says(text: str) -> bool:
        folded = text.casefold()
        return any(each in folded for each in told)

    return receipts_of(call.node.log, reader.receipt_positions(), frozenset(fact_ids), says)


def known_erasure(call: Call, erasure_id: str) -> ErasureRow:
    """Raises ApiError 404 ``erasure_not_found``."""
    row = call.node.reader.erasure(erasure_id)
    if row is None:
        raise coded("erasure_not_found", "there is no such erasure")
    return row


def erasure_record(call: Call, row: ErasureRow) -> Record:
    """An erasure as answers carry it."""
    receipt = call.node.reader.erasure_receipt(row.erasure_id)
    cleaning = call.service.cleaning
    return {
        "erasure_id": row.erasure_id,
        "status": "cleaning" if receipt is None else "clean",
        "reason": row.reason,
        "actor": row.actor,
        "position": row.position,
        "requested_at": format_instant(row.erased_at),
        "facts": row.facts,
        "events": row.events,
        "step": cleaning.step if receipt is None else None,
        "error": cleaning.error if receipt is None else None,
        "receipt": None
        if receipt is None
        else {
            "document": msgspec.json.decode(receipt.document),
            "signed": receipt.document,
            "signature": receipt.signature,
        },
    }


def hold_record(hold: LegalHold) -> Record:
    """A legal hold as answers carry it."""
    return {
        "target_kind": hold.target_kind,
        "target": hold.target,
        "actor": hold.actor,
        "set_at": format_instant(hold.set_at),
    }
