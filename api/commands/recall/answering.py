"""A recall from its parsed request to the bytes of its answer."""

from dataclasses import replace
from uuid import uuid4

import numpy as np

from engramlog.api.answers.recall.outcome import RecallOutcome
from engramlog.api.answers.sanitizer_modes import screen
from engramlog.api.commands.recall.question import ask, hint_of
from engramlog.api.commands.recall.receipts import receipt_of
from engramlog.api.commands.recall.shapes import (
    Attached,
    compact_answer,
    explaining,
    facts_answer,
    response_of,
    roomy,
    shown_records,
    unexplained,
)
from engramlog.api.commands.request_context import ReadingContext
from engramlog.api.commands.tombstones import notices_in_recall
from engramlog.api.http.bodies import encoded
from engramlog.api.schemas.recall import RecallBody, Shape


def answered(
    context: ReadingContext,
    body: RecallBody,
    warnings: list[str],
    *,
    shape: Shape,
    verify: bool = False,
) -> RecallOutcome:
    """Recall for the caller. Notes and writes nothing.

    Args:
        warnings: for the answer, before its own.
        shape: of the answer (see ``Shape``).
        verify: prove the answer by the caller's fact chain.

    Raises:
        ApiError: as ``ask``; ``as_of_*``; 501 or 403 if time travel is off.
    """
    settings = context.service.settings
    view = context.view()
    moment = context.moment(view, body, allowed=settings.time_travel_allow_recall_as_of)
    wanted = roomy(body) if shape == "compact" else body
    run = ask(context, wanted, view, moment, explain=explaining(context, body))
    reader, name = context.node.reader, str(uuid4())
    slots = np.asarray([each.slot for each in run.answer.results], dtype=np.int32)
    screened = screen(reader, view, slots, settings.sanitizer_mode, cleaned=True)
    counted = body.track and body.as_of is None
    kept = settings.recall_receipts and context.node.replica is None
    attached = Attached(
        recall_id=name,
        receipt_id=name if kept else None,
        hint=hint_of(context, wanted, view, moment, run),
        warnings=warnings + unexplained(context, body),
    )
    answer = run.answer
    records = shown_records(context, answer, screened)
    if shape in ("full", "legacy"):
        proof = None
        if verify:
            proof = context.service.chains.proof(reader, view, context.authorization, moment)
        response = response_of(
            context,
            body,
            answer,
            records,
            attached,
            channels=shape == "full",
            chain_proof=proof,
            tombstone_notices=notices_in_recall(view, run.authorization, moment, run.question),
        )
    elif shape == "facts":
        response = facts_answer(body, answer, records, attached)
    else:
        answer, response = compact_answer(body, answer, records, attached)
    receipt = None
    if kept:
        receipt = receipt_of(context, body, replace(run, answer=answer), name, counted=counted)
    return RecallOutcome(
        data=encoded(response),
        total=answer.total_scored,
        used=[each.row.id for each in answer.results if counted and not each.from_card],
        at_us=answer.moment.instant_us,
        scopes=sorted({each.row.scope for each in answer.results}),
        receipt=receipt,
    )
