"""Beginning an erasure, and its state."""

import asyncio

import msgspec
import numpy as np

from engramlog.api.answers.erasure_records import ErasureBegun, ErasureRecord, SignedReceipt
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import stored_uri
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import coded
from engramlog.api.schemas.erasures import ErasureRequest
from engramlog.eventlog.identifiers import IdentifierSource, id_text
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.erasures import (
    ErasureRow,
    find_erasure,
    find_erasure_receipt,
)
from engramlog.projections.tables.recalls.recall_receipts import receipt_positions
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.writing.decide.facts.erased_set import spellings_of
from engramlog.replay.erasing import receipts_of

TEXT_LENGTH_MIN = 4
"""Shorter values are too common to look for in the questions of recalls."""


async def erase(context: RequestContext, request: ErasureRequest) -> ErasureBegun:
    """Erase; then wait for the cleaning if the request says so. Raises ApiError 404
    ``fact_not_found``, 403 ``scope_forbidden``, 423 ``legal_hold``."""
    service = context.service
    await service.tracker.flush()
    entity = None if request.entity is None else stored_uri(request.entity)
    identifiers = IdentifierSource(context.node.log.origin)
    command = shaped(
        request,
        EraseFacts,
        erasure_id=id_text(identifiers.next(context.node.clock.now_us())),
        fact_ids=tuple(request.fact_ids),
        entity=entity,
        rights=context.authorization,
        events=tuple(await asyncio.to_thread(_telling, context, request.fact_ids, entity)),
    )
    done = await context.do(command)
    service.cleaning.wake()
    if request.wait:
        await service.cleaning.wait(command.erasure_id, request.timeout_s)
    row = context.node.reader.ask(find_erasure, command.erasure_id)
    assert row is not None
    begun = msgspec.structs.asdict(erasure_record(context, row))
    return ErasureBegun(
        **begun,
        fact_ids=done.detail["fact_ids"],
        derived_fact_ids=done.detail["derived_fact_ids"],
        episode_ids=done.detail["episode_ids"],
    )


def _telling(context: RequestContext, fact_ids: list[str], entity: str | None) -> list[str]:
    """Events of recall receipts whose question or request repeats a text to erase. The cleaning
    finds the receipts that returned an erased fact."""
    reader = context.node.reader
    view = reader.pin()
    named = [slot for fact in fact_ids if (slot := view.slot_of(fact)) is not None]
    places = np.asarray([*view.slots_about(entity).tolist(), *named], dtype=np.int32)
    texts = {row.value_v for row in reader.rows(view.from_position[places].tolist())}
    texts = {text.casefold() for text in texts if len(text) >= TEXT_LENGTH_MIN}
    names = None if entity is None else spellings_of(entity)
    if not texts and names is None:
        return []

    def says(text: str) -> bool:
        folded = text.casefold()
        if names is not None and names.search(text.lower()):
            return True
        return any(each in folded for each in texts)

    return receipts_of(context.node.log, reader.ask(receipt_positions), frozenset(fact_ids), says)


def known_erasure(context: RequestContext, erasure_id: str) -> ErasureRow:
    """Raises ApiError 404 ``erasure_not_found``."""
    row = context.node.reader.ask(find_erasure, erasure_id)
    if row is None:
        raise coded("erasure_not_found", "no such erasure")
    return row


def erasure_record(context: RequestContext, row: ErasureRow) -> ErasureRecord:
    """An erasure in the form of answers."""
    receipt = context.node.reader.ask(find_erasure_receipt, row.erasure_id)
    cleaning = context.service.cleaning
    signed = None
    if receipt is not None:
        document = msgspec.json.decode(receipt.document)
        signed = SignedReceipt(document, receipt.document, receipt.signature)
    return shaped(
        row,
        ErasureRecord,
        status="cleaning" if receipt is None else "clean",
        requested_at=format_instant(row.erased_at),
        step=cleaning.step if receipt is None else None,
        error=cleaning.error if receipt is None else None,
        receipt=signed,
    )
