"""One fact in a card."""

from typing import Literal

from msgspec import Struct

Status = Literal["current", "contradicted", "set aside"]


class CardFact(Struct, frozen=True):
    """``value`` is the canonical text. ``member`` is False for the weak side of a contradiction,
    which is named there and has no separate row."""

    id: str
    relation: str
    value: str
    confidence: float
    trust: float
    source: str
    hlc: int
    recorded_at: int
    position: int
    value_type: str = "string"
    cid: str = ""
    status: Status = "current"
    member: bool = True

    @property
    def effective(self) -> float:
        """Confidence times source trust."""
        return round(self.confidence * self.trust, 6)
