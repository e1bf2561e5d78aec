"""Filters of a request, applied before any stage: relation, source, and abmind's filters (its seed:
time, topic, tier, emotion)."""

import numpy as np
from msgspec import Struct

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.arrays import Bool
from engramlog.projections.image.view import View
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.moment import Moment

_GROUPS = {
    "positive": "joy pride excitement relief gratitude love hope humor",
    "negative": "frustration anger fear grief anxiety exhaustion doubt",
    "high-energy": "excitement anger determination surprise",
}


def emotions_of(asked: str) -> tuple[str, ...]:
    """The tags in an argument: those of a group, or a comma-separated list."""
    named = asked.strip().lower()
    parts = _GROUPS[named].split() if named in _GROUPS else named.split(",")
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


class Filters(Struct, frozen=True, kw_only=True):
    """None (or empty) keeps all.

    Attributes:
        relation, source: their numbers; -1 for one that never appeared.
        since_us, until_us: when the fact was recorded, both inclusive.
        topic, tier: exactly.
        emotions: any of them within any of the fact's emotion tags.
        without: numbers of excluded relations.
        set_aside: whether to keep facts that a resolution set aside.
        expired: whether to keep facts whose validity is over.
        held: keep those of them that were valid at some instant from the first to before the other.
    """

    relation: int | None = None
    source: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    topic: str | None = None
    tier: str | None = None
    emotions: tuple[str, ...] = ()
    without: tuple[int, ...] = ()
    set_aside: bool = False
    expired: bool = False
    held: tuple[int, int] | None = None

    def apply(self, view: View, mask: Bool, moment: Moment) -> Bool:
        """The kept part of ``mask``; ``mask`` itself without filters."""
        if self == Filters(set_aside=self.set_aside, expired=self.expired, held=self.held):
            return mask
        mask = mask.copy()
        for column, wanted in ((view.relation, self.relation), (view.source, self.source)):
            if wanted is not None:
                mask &= column == wanted
        for relation in self.without:
            mask &= view.relation != relation
        if self.since_us is not None:
            mask &= view.recorded_at >= self.since_us
        if self.until_us is not None:
            mask &= view.recorded_at <= self.until_us
        if self.emotions or self.topic is not None or self.tier is not None:
            self._by_attributes(view, mask, moment)
        return mask

    def _by_attributes(self, view: View, mask: Bool, moment: Moment) -> None:
        attributed = view.attributed_slots()
        attributed = attributed[mask[attributed]]
        kept = [self._matches(each) for each in view.attributes(attributed, moment)]
        if not self._matches(PLAIN):  # most facts have no attributes
            mask[:] = False
        mask[attributed] = np.array(kept, dtype=np.bool_)

    def _matches(self, attributes: FactAttributes) -> bool:
        if self.topic is not None and attributes.topic != self.topic:
            return False
        if self.tier is not None and attributes.tier != self.tier:
            return False
        tags = " ".join(attributes.emotion_tags).lower()
        return not self.emotions or any(each in tags for each in self.emotions)
