"""Survivors: the facts that pass authorisation, the Moment and a request's filters. Found by whole
columns, and cached until the next write of facts.

They are a function of the view, the moment and the filters. Only expiry depends on the clock, so a
result is valid from one expiry to the next.
"""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.graph.neighbors import hidden_relations
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import expiry_around, live_mask
from engramlog.projections.moment import NO_END, NO_START, Moment
from engramlog.projections.recall.filters import Filters

DERIVED_MAX = 4_096
"""Cached derivations per set of facts."""
DERIVED_CHARS_MAX = 1_000_000
"""Characters of questions and words in their keys."""


class Kept:
    """Some facts of a view, as a mask by slot and as ascending slots, with cached derivations."""

    def __init__(self, view: View, mask: Bool) -> None:
        self.mask = mask
        self.slots: I32 = np.flatnonzero(mask).astype(np.int32)
        self.everything = len(self.slots) == view.count
        lengths = view.length if self.everything else view.length[self.slots]
        self.total_length = int(lengths.sum(dtype=np.int64))
        self._confident: dict[float, I32] = {}
        self._derived: dict[Hashable, Any] = {}
        self._key_chars = 0

    def confident(self, view: View, moment: Moment, above: float) -> I32:
        """The facts with a confidence above ``above`` at the moment, by slot."""
        known = self._confident.get(above)
        if known is None:
            known = self.slots[view.more_confident(self.slots, moment, above)]
            if len(known) == len(self.slots):
                known = self.slots
            self._confident[above] = known
        return known

    def derived(self, key: str | tuple[Hashable, ...], find: Callable[[], Any]) -> Any:
        """The result of ``find`` over these facts, cached under a key that names all its other
        inputs. Parallel stages may both compute it, with equal results."""
        known = self._derived.get(key, self)  # a marker for "not cached": None may be a result
        if known is not self:
            return known
        if len(self._derived) >= DERIVED_MAX or self._key_chars >= DERIVED_CHARS_MAX:
            self._derived.clear()
            self._key_chars = 0
        found = self._derived[key] = find()
        if isinstance(key, tuple):
            self._key_chars += sum(len(part) for part in key if isinstance(part, str))
        return found


class Surviving(Struct, frozen=True):
    """``visible``: the facts that exist for the caller at the Moment. ``survivors``: those of them
    that pass the request's filters. ``over``: those left out because their validity is over. All
    are valid for instants from ``since`` up to ``until``."""

    visible: Kept
    survivors: Kept
    over: I32
    since: int
    until: int


def surviving(
    view: View, authorization: Authorization, moment: Moment, filters: Filters
) -> Surviving:
    """The survivors, cached or computed. Not cached with ``valid_at``."""
    if moment.valid_at_us is not None:
        return find_surviving(view, authorization, moment, filters)
    key = (*view.facts_read(authorization, moment), filters)
    known: Surviving | None = view.remembered.get(key)
    if known is not None and known.since <= moment.valid_us < known.until:
        return known
    found = find_surviving(view, authorization, moment, filters)
    view.remembered.put(key, found)
    return found


def find_surviving(
    view: View, authorization: Authorization, moment: Moment, filters: Filters
) -> Surviving:
    """The survivors, computed from the columns."""
    if filters.held is not None:
        return _with_held(view, authorization, moment, filters)
    mask = live_mask(view, authorization, moment, include_expired=True)
    hidden = hidden_relations(view)
    if hidden.any():
        mask &= ~hidden[view.relation]
    mask[view.reserved_slots()] = False
    if not filters.set_aside:
        mask &= view.set_aside > moment.position
    mortal = np.flatnonzero(mask & (view.valid_until < NO_END)).astype(np.int32)
    since, until = expiry_around(view, moment, mortal)  # an expired fact contradicts nothing
    over = mortal[:0]
    if not filters.expired:
        over = mortal[view.valid_until[mortal] <= moment.valid_us]
        mask[over] = False
    visible, survivors = _kept(view, mask, moment, filters)
    return Surviving(visible, survivors, over, since, until)


def _with_held(
    view: View, authorization: Authorization, moment: Moment, filters: Filters
) -> Surviving:
    """The survivors, with those that are over, but held at the time asked for."""
    assert filters.held is not None
    present = msgspec.structs.replace(filters, held=None)
    found = surviving(view, authorization, moment, present)
    held = held_within(view, found.over, *filters.held)
    mask = found.visible.mask.copy()
    mask[found.over[held]] = True
    visible, survivors = _kept(view, mask, moment, present)
    return Surviving(visible, survivors, found.over[~held], found.since, found.until)


def _kept(view: View, mask: Bool, moment: Moment, filters: Filters) -> tuple[Kept, Kept]:
    """The facts of a mask, and those of them that pass the filters."""
    visible = Kept(view, mask)
    kept = filters.apply(view, mask, moment)
    return visible, visible if kept is mask else Kept(view, kept)


def times(view: View, slots: I32) -> I64:
    """The time of each fact: its ``valid_from``, else when it was recorded, or the end of its
    validity if that was earlier."""
    start = view.valid_from[slots]
    known = np.minimum(view.recorded_at[slots], view.valid_until[slots] - 1)
    return np.where(start == NO_START, known, start)


def held_within(view: View, slots: I32, first: int, after: int) -> Bool:
    """Which facts were valid at some instant from ``first`` to before ``after``."""
    start = view.valid_from[slots]
    held: Bool = (start < after) & (view.valid_until[slots] > first)
    unknown = np.flatnonzero(held & (start == NO_START))
    held[unknown] = times(view, slots[unknown]) < after
    return held
