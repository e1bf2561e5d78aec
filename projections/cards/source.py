"""Where readers get cards from, and what comes with a card."""

from typing import Protocol

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.generator import Rows, card_at
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.moment import Moment

_NONE: I32 = np.empty(0, dtype=np.int32)


class Served(Struct, frozen=True):
    """What a reader gets.

    Attributes:
        card: None without facts, before the card is written, or if the cached one is untrue.
        stale: newer facts are not in the card, or the cached one was untrue.
        timed_out: a forced refresh was not done in time.
        moment: when the card was written.
        divergent: slots of facts that contradict the untrue card.
    """

    card: Card | None
    moment: Moment
    stale: bool = False
    timed_out: bool = False
    divergent: I32 = _NONE


class CardSource(Protocol):
    """The source of cards for recall."""

    def serve(self, asked: AskedCard, *, force: bool = False) -> Served:
        """The cached card, without waiting; with ``force`` a current one, within 500 ms."""
        ...

    def exact(self, asked: AskedCard) -> Served:
        """The card of exactly this moment, written now if needed."""
        ...


class PastCards:
    """Cards of past moments: always exact, never cached."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def serve(self, asked: AskedCard, *, force: bool = False) -> Served:  # noqa: ARG002
        return self.exact(asked)

    def exact(self, asked: AskedCard) -> Served:
        return Served(card_at(asked, self._rows), asked.moment)
