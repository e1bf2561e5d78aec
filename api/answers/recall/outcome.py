"""The outcome of a recall: recall workers send it to the serving process."""

from msgspec import Struct

from engramlog.eventlog.kinds import RecallAnswered


class RecallOutcome(Struct, frozen=True):
    """An answer, with the data for its tracking.

    Attributes:
        data: the answer's JSON.
        total: how many facts were scored.
        used: ids of the facts whose access counts.
        at_us: the time of the access, microseconds.
        scopes: of the returned facts.
        receipt: for the log; None if the recall has none.
    """

    data: bytes
    total: int
    used: list[str]
    at_us: int
    scopes: list[str]
    receipt: RecallAnswered | None
