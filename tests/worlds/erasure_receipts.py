"""Checks the receipts of erasures."""

import base64

import msgspec

from engramlog.eventlog.identity import signed_by
from engramlog.replay.erasing import RECEIPT_CONTEXT, ReceiptDocument


def receipt_fault(document: str, signature: str) -> str | None:
    """Why a receipt does not match its node's signature; None if it does."""
    try:
        stated = msgspec.json.decode(document, type=ReceiptDocument)
        message = RECEIPT_CONTEXT + document.encode()
        if not signed_by(stated.public_key, base64.b64decode(signature), message):
            return "the signature does not hold"
    except (msgspec.MsgspecError, ValueError) as fault:
        return f"not a receipt: {fault}"
    return None
