"""A recall from its parsed request to the bytes of its answer, wherever that is done."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import numpy as np
from msgspec import Struct

from api.bodies import encoded
from api.call import Call
from api.commands.asking import ask
from api.commands.recalling import explaining, hint_of, response_of, unexplained
from api.commands.receipting import receipt_of
from api.commands.tombstoning import notices_in_recall
from api.schemas.recall import RecallBody
from api.screening import screen
from eventlog.kinds import RecallAnswered


class Answered(Struct, frozen=True):
    """An answer, and what is to be noted of it.

    Attributes:
        data: the answer's JSON.
        total: facts that were scored.
        used: ids of the facts whose access counts.
        at_us: when that was, microseconds.
        scopes: of the facts that were returned.
        receipt: for the log; None where none is kept.
    """

    data: bytes
    total: int
    used: list[str]
    at_us: int
    scopes: list[str]
    receipt: RecallAnswered | None


def answered(
    call: Call, body: RecallBody, warnings: list[str], *, legacy: bool, verify: bool = False
) -> Answered:
    """Recall for the caller. Nothing is noted or written here.

    Args:
        warnings: to stand in the answer, before its own.
        legacy: leave out the channels.
        verify: prove the answer by the caller's fact chain.

    Raises:
        ApiError: as ``ask``; ``as_of_*``; 501 or 403 where time travel is off.
    """
    settings = call.service.settings
    view = call.view()
    moment = call.moment(view, body, allowed=settings.time_travel_allow_recall_as_of)
    asked = ask(call, body, view, moment, explain=explaining(call, body))
    found, reader = asked.found, call.node.reader
    slots = np.asarray([each.slot for each in found.results], dtype=np.int32)
    counted = body.track and body.as_of is None
    receipt = None
    name = str(uuid4())
    if settings.recall_receipts and call.node.replica is None:
        receipt = receipt_of(call, body, asked, name, counted=counted)
    chain_proof = None
    if verify:
        chain_proof = call.service.chains.proof(reader, view, call.authorization, moment)
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
        "warnings": warnings + unexplained(call, body),
    }
    response = response_of(call, body, found, legacy=legacy, extra=extra)
    return Answered(
        data=encoded(response),
        total=found.total_scored,
        used=[each.row.id for each in found.results if counted and not each.from_card],
        at_us=found.moment.instant_us,
        scopes=sorted({each.row.scope for each in found.results}),
        receipt=receipt,
    )


encode_answered = msgspec.msgpack.Encoder().encode
decode_answered = msgspec.msgpack.Decoder(Answered).decode
