"""Who may read what, compiled once per request and applied before anything is counted."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I8, I32, U8, Bool, Slots
from engramlog.projections.interner import Interner
from engramlog.projections.normalization import SCOPES, lies_under, matches_label

PERMISSIONS = (
    "read",
    "write",
    "instruction:write",
    "federate",
    "admin",
    "audit.read",
    "replicate",
)

OPEN_CLASS = 1
"""The highest classification open to every caller with rights to the place: internal."""
CEILING = 2
"""The highest classification that is ever listed or recalled: confidential. Secret is 3."""
SECRET_CLASS = 3


class Placed(Protocol):
    """Columns that place each fact: scope, garden, source and the like."""

    @property
    def scope(self) -> I8: ...
    @property
    def garden(self) -> I32: ...
    @property
    def gardens(self) -> Interner: ...
    @property
    def source(self) -> I32: ...
    @property
    def sources(self) -> Interner: ...
    @property
    def classification(self) -> I8: ...
    @property
    def confidential(self) -> bool: ...
    @property
    def entity(self) -> I32: ...
    @property
    def entities(self) -> Interner: ...
    def flags(self, slots: Slots) -> U8: ...
    def settled_by_note(self) -> tuple[I32, I32]: ...
    def hidden(self, slots: Slots | None = None) -> Bool | None: ...


class Authorization(Struct, frozen=True):
    """A caller's rights. ``scopes``: the readable ones. ``gardens``: the gardens (by id) whose
    facts the caller may see. Facts outside both do not exist for this caller."""

    principal: str
    permissions: frozenset[str]
    scopes: frozenset[str]
    gardens: frozenset[str] = frozenset()
    withheld: int = 0
    """Facts with any of these sanitizer flags do not exist for this caller either."""
    only_gardens: bool = False
    """Whether facts outside gardens are left out."""
    every_garden: bool = False
    """Only for the machine's owner, who can read the files anyway."""
    sources: tuple[str, ...] = ("*",)
    """The sources that the caller may write as: exact, or suffix-``*`` globs."""
    entities: tuple[str, ...] = ()
    """Prefixes of readable entities; an entity must lie under all of them (``capabilities.grant``).
    Facts about others do not exist for this caller."""
    sees_hidden: bool = False
    """Whether to ignore tombstones: to find which of them hide something, never to show the hidden
    facts."""
    ceiling: int = CEILING
    """Facts classified higher do not exist for this caller. Above ``OPEN_CLASS`` only the caller's
    own facts are visible, except to the machine's owner."""

    def capped(self, ceiling: int | None) -> Authorization:
        """The same caller, limited further to this classification."""
        if ceiling is None or ceiling >= self.ceiling:
            return self
        return msgspec.structs.replace(self, ceiling=ceiling)

    def alone(self) -> Authorization:
        """The same caller, for one fact by its id: their own facts are visible in any
        classification, unless their key has a lower ceiling."""
        if self.ceiling < CEILING:
            return self
        return msgspec.structs.replace(self, ceiling=SECRET_CLASS)

    def narrowed(self, scopes: frozenset[str]) -> Authorization:
        """The same caller, limited further to ``scopes``."""
        return msgspec.structs.replace(self, scopes=self.scopes & scopes)

    def withholding(self, flags: int) -> Authorization:
        """The same caller, without the facts that have any of these sanitizer flags."""
        return self if flags == self.withheld else msgspec.structs.replace(self, withheld=flags)

    def within(self, garden_id: str) -> Authorization:
        """The same caller, limited further to the facts of one garden."""
        kept = frozenset({garden_id}) if self.every_garden else self.gardens & {garden_id}
        return msgspec.structs.replace(self, gardens=kept, every_garden=False, only_gardens=True)

    def past_tombstones(self) -> Authorization:
        """The same caller, ignoring tombstones."""
        return msgspec.structs.replace(self, sees_hidden=True)

    @property
    def _sees_own(self) -> bool:
        """Whether only the caller's own facts are visible above ``OPEN_CLASS``."""
        return self.ceiling > OPEN_CLASS and not self.every_garden

    def as_reader(self, view: Placed) -> Authorization:
        """The rights without what does not matter for reading: equal for callers who may read the
        same facts of ``view``, so that they share what is cached."""
        own = view.confidential and self._sees_own
        return msgspec.structs.replace(
            self, principal=self.principal if own else "", permissions=frozenset(), sources=()
        )

    def writes_as(self, source: str) -> bool:
        """Whether the caller may state facts as ``source`` (stored form)."""
        return _is_covered(source, self.sources)

    def may_end(self, source: str) -> bool:
        """Whether the caller may end, hide or weaken a fact of ``source``, in any scope."""
        return self.may("admin") or self.writes_as(source)

    @property
    def ends_everything(self) -> bool:
        """Whether the caller may end the facts of every source."""
        return self.may("admin") or "*" in self.sources

    @property
    def own_source(self) -> str:
        """The caller's own source name: facts stated under it are known to the caller."""
        return self.sources[0]

    def reading(self) -> Authorization:
        """The same caller for parts of an answer beyond the request: nothing that the caller could
        not have requested."""
        return self if self.may("read") else self.narrowed(frozenset())

    def covers(self, entity: str) -> bool:
        """Whether facts about ``entity`` (stored form) may exist for this caller."""
        return all(lies_under(entity, prefix) for prefix in self.entities)

    def may(self, permission: str) -> bool:
        return permission in self.permissions

    def mask(self, view: Placed, slots: Slots | None = None) -> Bool:
        """Which slots (all, or those given) this caller may read."""
        scope = view.scope if slots is None else view.scope[slots]
        if slots is None:
            # A few comparisons of a byte column cost less than one look-up per fact.
            allowed = np.zeros(len(scope), dtype=bool)
            for number, name in enumerate(SCOPES):
                if name in self.scopes:
                    allowed |= scope == number
        else:
            allowed = _by_scope_number(self.scopes)[scope]
        if self.only_gardens or (not self.every_garden and len(view.gardens)):
            garden = view.garden if slots is None else view.garden[slots]
            if self.only_gardens:
                allowed &= garden >= 0
            if not self.every_garden and np.count_nonzero(garden >= 0):
                numbers = [view.gardens.number(name) for name in self.gardens]
                open_gardens = np.array([n for n in numbers if n is not None], dtype=garden.dtype)
                allowed &= (garden < 0) | np.isin(garden, open_gardens)
        if view.confidential or self.ceiling < OPEN_CLASS:
            allowed &= self.cleared(view, slots)
        if self.entities:
            entity = view.entity if slots is None else view.entity[slots]
            allowed &= np.isin(entity, view.entities.chosen(self.entities, self.covers))
        if not self.sees_hidden and (hidden := view.hidden(slots)) is not None:
            allowed &= ~hidden
        if self.withheld:
            chosen: Slots = np.arange(len(allowed), dtype=np.int32) if slots is None else slots
            allowed &= (view.flags(chosen) & self.withheld) == 0
            notes = self.withheld_notes(view)
            if len(notes):
                allowed &= ~np.isin(chosen, notes)
        return allowed

    def withheld_notes(self, view: Placed) -> I32:
        """Notes of resolutions that the sanitizer withholds: a note repeats a settled fact's
        words."""
        notes, settled = view.settled_by_note()
        return notes[(view.flags(settled) & self.withheld) != 0]

    def cleared(self, view: Placed, slots: Slots | None) -> Bool:
        """Which facts the caller's classification ceiling admits."""
        level = view.classification if slots is None else view.classification[slots]
        cleared: Bool = level <= self.ceiling
        if self._sees_own:
            own = view.sources.number(self.principal)
            stated = view.source if slots is None else view.source[slots]
            cleared &= (level <= OPEN_CLASS) | (stated == (-1 if own is None else own))
        return cleared


@lru_cache(maxsize=4_096)
def _is_covered(source: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns covers a source."""
    return any(matches_label(pattern, source) for pattern in patterns)


@lru_cache(maxsize=64)
def _by_scope_number(scopes: frozenset[str]) -> Bool:
    """By scope number: whether the scope is among these; the last entry is for no scope, -1."""
    return np.array([*(name in scopes for name in SCOPES), False], dtype=np.bool_)


def everything(principal: str = "system:engramlog") -> Authorization:
    """The node's own rights: for rebuilds, exports and local tools."""
    return Authorization(
        principal,
        frozenset(PERMISSIONS),
        frozenset(SCOPES),
        every_garden=True,
        ceiling=SECRET_CLASS,
    )
