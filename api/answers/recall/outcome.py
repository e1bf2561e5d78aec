"""The outcome of a recall: what a recall worker hands to the process that serves."""

from __future__ import annotations

from msgspec import Struct

from engramlog.eventlog.kinds import RecallAnswered


class RecallOutcome(Struct, frozen=True):
    """An answer, and what is to be noted of it.

    Attributes:
        data: the answer's JSON.
        total: facts that were scored.
        used: ids of the facts whose access counts.
        at_us: when that was, microseconds.
        scopes: of the facts that were returned.
        receipt: for the log; None if none is kept.
    """

    data: bytes
    total: int
    used: list[str]
    at_us: int
    scopes: list[str]
    receipt: RecallAnswered | None
