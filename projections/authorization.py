"""Who may read what, compiled once a request and applied before anything is counted."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from msgspec import Struct

from projections.arrays import I8, I32, Bool
from projections.interner import Interner
from projections.normalization import SCOPES

PERMISSIONS = ("read", "write", "instruction:write", "federate", "admin", "audit.read")


class Placed(Protocol):
    """Columns that say where each fact lies."""

    @property
    def scope(self) -> I8: ...
    @property
    def garden(self) -> I32: ...
    @property
    def gardens(self) -> Interner: ...


class Authorization(Struct, frozen=True):
    """A caller's rights. ``scopes`` are the readable ones, ``gardens`` the gardens (by id)
    whose facts the caller may see; facts outside both do not exist for this caller."""

    principal: str
    permissions: frozenset[str]
    scopes: frozenset[str]
    gardens: frozenset[str] = frozenset()

    def narrowed(self, scopes: frozenset[str]) -> Authorization:
        """The same caller, limited further to ``scopes``."""
        return Authorization(self.principal, self.permissions, self.scopes & scopes, self.gardens)

    def may(self, permission: str) -> bool:
        return permission in self.permissions

    def mask(self, view: Placed, slots: I32 | None = None) -> Bool:
        """Which slots (all, or those given) this caller may read: a bool array."""
        scope = view.scope if slots is None else view.scope[slots]
        garden = view.garden if slots is None else view.garden[slots]
        # Few comparisons of a byte column cost less than one look-up a fact.
        allowed = np.zeros(len(scope), dtype=bool)
        for number, name in enumerate(SCOPES):
            if name in self.scopes:
                allowed |= scope == number
        if (garden >= 0).any():
            numbers = [view.gardens.number(name) for name in self.gardens]
            open_gardens = np.array([n for n in numbers if n is not None], dtype=garden.dtype)
            allowed &= (garden < 0) | np.isin(garden, open_gardens)
        return allowed


def everything(principal: str = "system:engramlog") -> Authorization:
    """The node's own rights: for rebuilds, exports and local tools."""
    return Authorization(principal, frozenset(PERMISSIONS), frozenset(SCOPES))
