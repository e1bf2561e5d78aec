"""The facts of a card, and a fingerprint that changes whenever its text would.

Every read uses the reader's rights at the reader's Moment. So readers who see different facts never
share a fingerprint or a text.
"""

from hashlib import blake2b

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, Bool
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.graph.neighbors import hidden_relations
from engramlog.projections.image.contradicted_facts import are_contradicted, are_denied
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.cards import CardKey

EFFECTIVE_MIN = 0.3
"""Least confidence times source trust of a fact in a card (seed §20.4.2)."""
EFFECTIVE_DECIMALS = 6


class AskedCard(Struct, frozen=True):
    """A reader's question: the card of ``key`` from the facts that ``authorization`` sees in
    ``view`` at ``moment``."""

    view: View
    key: CardKey
    authorization: Authorization
    moment: Moment


class CardInputs(Struct, frozen=True):
    """Parallel arrays over the live facts of a key, ascending by slot. ``member``: confident enough
    for the card. ``opposed``: another live value contradicts it. ``disputed``: that, or another
    source denies it. ``aside``: it lost a settled conflict."""

    slots: I32
    confidence: F64
    trust: F64
    effective: F64
    member: Bool
    opposed: Bool
    disputed: Bool
    aside: Bool

    @property
    def members(self) -> I32:
        """Slots of the card's facts."""
        return self.slots[self.member]

    @property
    def contested(self) -> I32:
        """Slots of members with another side in an open contradiction."""
        return self.slots[self.member & self.opposed]

    def fingerprint(self) -> bytes:
        """Equal exactly if the text is equal."""
        digest = blake2b(digest_size=16)
        for array in (self.slots, self.confidence, self.trust, self.disputed, self.aside):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.digest()


def slots_of_key(view: View, key: CardKey) -> I32:
    """Slots of the facts of a key, readable or not."""
    garden = -1 if key.garden is None else view.gardens.number(key.garden)
    if garden is None:
        return np.empty(0, dtype=np.int32)
    slots = view.slots_about(key.entity)
    return slots[view.garden[slots] == garden]


def card_inputs(asked: AskedCard) -> CardInputs:
    """The facts of a card; without members if it would be empty. A card has only facts that all its
    readers may read."""
    view, key, moment = asked.view, asked.key, asked.moment
    narrow = asked.authorization.narrowed(frozenset({key.scope})).capped(OPEN_CLASS)
    slots = live(view, narrow, moment, slots_of_key(view, key))
    slots = _without_protocol_records(view, slots)
    confidence = view.confidence(slots, moment)
    trust = view.trust(slots, moment)
    effective: F64 = np.round(confidence * trust, EFFECTIVE_DECIMALS)
    aside: Bool = view.set_aside[slots] <= moment.position
    contradicted = are_contradicted(view, slots, moment, narrow) & ~aside
    member = effective >= EFFECTIVE_MIN
    contested = _contested_keys(view, slots, contradicted, member)
    opposed = contradicted & np.isin(view.key[slots], contested)
    # A denial has no other value to show: the denied fact alone is marked (wire 5.2).
    disputed = opposed | (member & are_denied(view, slots, moment, narrow))
    # A weak fact counts only as the other side of a member's contradiction.
    kept = member | opposed
    return CardInputs(
        slots[kept],
        confidence[kept],
        trust[kept],
        effective[kept],
        member[kept],
        opposed[kept],
        disputed[kept],
        aside[kept],
    )


def _contested_keys(view: View, slots: I32, disputed: Bool, member: Bool) -> I32:
    """Keys with a disputed member and two values: a denied fact may have no other."""
    keys, values = view.key[slots[disputed]], view.value[slots[disputed]]
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    mixed = keys[1:][(keys[1:] == keys[:-1]) & (values[1:] != values[:-1])]
    return np.intersect1d(mixed, view.key[slots[disputed & member]])


def _without_protocol_records(view: View, slots: I32) -> I32:
    """Those of ``slots`` that are not the protocol's records, as in recall."""
    hidden = hidden_relations(view)
    return slots[~hidden[view.relation[slots]]] if hidden.any() else slots
