"""The list of facts: filters, order and pages.

Newest first by (hlc, id). ``total`` counts every match at the walk's moment, so concurrent writes
do not change it. Source: wire 2.2.
"""

from bisect import bisect_right

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.contradictions.claims import Prefer
from engramlog.projections.contradictions.preferred_side import preferred
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View, everything
from engramlog.projections.image.visible_facts import expiry_around, live, saying
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.fact_rows import FactRow

KEPT_MIN = 2_000
"""Matches that are kept: fewer are found again as quickly."""
PAGE_BYTES_MAX = 16 * 1024 * 1024
"""Values in one page: 500 facts may have 500 times the largest value."""
Place = tuple[int, str]
"""(hlc, id): the sort key of a fact."""


class ListFilters(Struct, frozen=True, kw_only=True):
    """The filters of a list; entity and source in stored form, times in microseconds."""

    entity: str | None = None
    relation: str | None = None
    source: str | None = None
    min_confidence: float = 0.0
    include_contradicted: bool = False
    include_expired: bool = False
    include_retracted: bool = False
    after_us: int | None = None
    since: int = 0
    prefer: Prefer | None = None
    attested: bool | None = None
    trusted_from: float = 0.0
    """Least effective confidence of facts from sources without full trust."""


class FactListPage(Struct, frozen=True):
    """One page, and whether more follow. ``undecided``: as of ``Matches``."""

    slots: list[int]
    rows: list[FactRow]
    total: int
    more: bool
    undecided: int = 0

    @property
    def last(self) -> Place:
        """The sort key of the last fact."""
        return self.rows[-1].hlc, self.rows[-1].id


class Matches(Struct, frozen=True):
    """Slots that match, by hlc; valid for instants from ``since`` up to ``until``. ``undecided``:
    contradicted facts that are left out, without another value of their key in the list."""

    slots: I32
    undecided: int
    since: int = 0
    until: int = 0


def matching(
    view: View, authorization: Authorization, moment: Moment, filters: ListFilters
) -> Matches:
    """What matches. That of many facts is kept for the next pages."""
    if moment.valid_at_us is not None:
        return _matching(view, authorization, moment, filters)
    key = (*view.facts_read(authorization, moment), filters)
    known: Matches | None = view.remembered.get(key)
    if known is not None and known.since <= moment.valid_us < known.until:
        return known
    found = _matching(view, authorization, moment, filters)
    if len(found.slots) >= KEPT_MIN:
        since, until = expiry_around(view, moment)
        view.remembered.put(key, replace(found, since=since, until=until))
    return found


def _matching(
    view: View, authorization: Authorization, moment: Moment, filters: ListFilters
) -> Matches:
    slots = live(
        view,
        authorization,
        moment,
        _narrowed(view, filters),
        include_expired=filters.include_expired,
        include_retracted=filters.include_retracted,
    )
    if filters.since:
        slots = slots[view.from_position[slots] > filters.since]
    if filters.after_us is not None:
        slots = slots[view.recorded_at[slots] > filters.after_us]
    if filters.min_confidence > 0.0:
        slots = slots[view.confidence(slots, moment) >= filters.min_confidence]
    if filters.trusted_from > 0.0:
        slots = slots[_trusted(view, slots, moment, filters.trusted_from)]
    undecided = 0
    if not filters.include_contradicted:
        shown = preferred(view, slots, moment, authorization, prefer=filters.prefer)
        left_out, slots = slots[~shown], slots[shown]
        if len(left_out):
            undecided = int((~np.isin(view.key[left_out], view.key[slots])).sum())
    hlc = view.hlc[slots]
    if np.any(hlc[1:] < hlc[:-1]):  # facts of several nodes
        slots = slots[np.argsort(hlc, kind="stable")]
    return Matches(slots, undecided)


def _trusted(view: View, slots: I32, moment: Moment, least: float) -> Bool:
    """Which facts their source's trust does not hide. A low confidence from a fully trusted source
    does not hide a fact, and ended facts stay visible."""
    trust = view.trust(slots, moment)
    shown: Bool = trust >= 1.0
    doubted = np.flatnonzero(~shown)
    confidence = view.confidence(slots[doubted], moment)
    shown[doubted] = (confidence <= 0.0) | (confidence * trust[doubted] >= least)
    return shown


def _narrowed(view: View, filters: ListFilters) -> I32 | None:
    """Slots that pass the filters by name; None if no filter applies."""
    named = (filters.entity, filters.relation, filters.source, filters.attested)
    if all(each is None for each in named):
        return None
    slots = everything(view)
    if filters.entity is not None:
        slots = view.slots_about(filters.entity)
    slots = saying(view, slots, relation=filters.relation, source=filters.source)
    if filters.attested is not None:
        slots = slots[view.attested(slots) == filters.attested]
    return slots


def page_of(
    reader: Reader, view: View, matches: Matches, *, limit: int, after: Place | None
) -> FactListPage:
    """The page of ``limit`` facts after ``after``, newest first by (hlc, id); fewer if their values
    exceed ``PAGE_BYTES_MAX``. ``matches``: those of all pages."""
    slots = matches.slots
    until, ties = len(slots), 0
    if after is not None:
        until = _up_to(view, slots, after[0])
        ties = until - _up_to(view, slots, after[0] - 1)
    chosen = _newest(view, slots[:until], limit + 1 + ties)
    if int(view.value_bytes[chosen].sum(dtype=np.int64)) > PAGE_BYTES_MAX:
        limit = min(limit, fitting(view, chosen[::-1][ties:]))
        chosen = _newest(view, chosen, limit + 1 + ties)
    rows = reader.every_row(view.from_position[chosen].tolist())
    places = [(row.hlc, row.id, n) for n, row in enumerate(rows)]
    places.sort(reverse=True)  # ids are unique
    if after is not None:
        places = [place for place in places if place[:2] < after]
    shown = [n for _, _, n in places[:limit]]
    numbers: list[int] = chosen.tolist()
    return FactListPage(
        slots=[numbers[n] for n in shown],
        rows=[rows[n] for n in shown],
        total=len(slots),
        more=len(places) > limit,
        undecided=matches.undecided,
    )


def _newest(view: View, slots: I32, count: int) -> I32:
    """At least ``count`` slots with the highest hlc, including all that tie with the last."""
    if len(slots) <= count:
        return slots
    return slots[_up_to(view, slots, int(view.hlc[slots[-count]]) - 1) :]


def _up_to(view: View, slots: I32, hlc: int) -> int:
    """How many of the slots, by hlc, have at most this one."""
    return bisect_right(slots, hlc, key=lambda slot: int(view.hlc[slot]))


def fitting(view: View, slots: I32) -> int:
    """How many of these facts, in order, fit into a page; at least one."""
    sizes = np.cumsum(view.value_bytes[slots], dtype=np.int64)
    return max(1, int(sizes.searchsorted(PAGE_BYTES_MAX, side="right")))
