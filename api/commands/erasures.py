"""The state of an erasure."""

import msgspec

from engramlog.api.answers.erasure_records import ErasureRecord, SignedReceipt
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.request_context import RequestContext
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.erasures import (
    ErasureRow,
    find_erasure_receipt,
)


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
