"""A recall from its parsed request to the bytes of its answer, wherever that is done."""

from __future__ import annotations

from uuid import uuid4

import numpy as np

from engramlog.api.answers.recall_outcome import RecallOutcome
from engramlog.api.answers.sanitizer_modes import screen
from engramlog.api.commands.recall_question import ask
from engramlog.api.commands.recall_receipts import receipt_of
from engramlog.api.commands.recall_shapes import explaining, hint_of, response_of, unexplained
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.commands.tombstones import notices_in_recall
from engramlog.api.http.bodies import encoded
from engramlog.api.schemas.recall import RecallBody


def answered(
    context: RequestContext,
    body: RecallBody,
    warnings: list[str],
    *,
    legacy: bool,
    verify: bool = False,
) -> RecallOutcome:
    """Recall for the caller. Nothing is noted or written here.

    Args:
        warnings: to stand in the answer, before its own.
        legacy: leave out the channels.
        verify: prove the answer by the caller's fact chain.

    Raises:
        ApiError: as ``ask``; ``as_of_*``; 501 or 403 where time travel is off.
    """
    settings = context.service.settings
    view = context.view()
    moment = context.moment(view, body, allowed=settings.time_travel_allow_recall_as_of)
    asked = ask(context, body, view, moment, explain=explaining(context, body))
    found, reader = asked.found, context.node.reader
    slots = np.asarray([each.slot for each in found.results], dtype=np.int32)
    counted = body.track and body.as_of is None
    receipt = None
    name = str(uuid4())
    if settings.recall_receipts and context.node.replica is None:
        receipt = receipt_of(context, body, asked, name, counted=counted)
    chain_proof = None
    if verify:
        chain_proof = context.service.chains.proof(reader, view, context.authorization, moment)
    hint = None
    if not found.results:
        hint = hint_of(view, asked.authorization, moment, asked.question.scopes)
    extra = {
        "recall_id": name,
        "receipt_id": None if receipt is None else name,
        "hint": hint,
        "chain_proof": chain_proof,
        "tombstone_notices": notices_in_recall(view, asked.authorization, moment, asked.question),
        "screen": screen(reader, view, slots, settings.sanitizer_mode, cleaned=True),
        "warnings": warnings + unexplained(context, body),
    }
    response = response_of(context, body, found, legacy=legacy, extra=extra)
    return RecallOutcome(
        data=encoded(response),
        total=found.total_scored,
        used=[each.row.id for each in found.results if counted and not each.from_card],
        at_us=found.moment.instant_us,
        scopes=sorted({each.row.scope for each in found.results}),
        receipt=receipt,
    )
