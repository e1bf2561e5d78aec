"""The facts that survive for one request, before any stage looks at them.

Authorisation and the Moment come first: what they leave is ``visible`` and is all that
exists for this request. Request filters leave the ``survivors``, over which statistics
are counted. ``admits`` is the gate every candidate and every walked edge must pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from projections.arrays import F64, I32, Bool
from projections.graph import surfacing
from projections.selection import live

if TYPE_CHECKING:
    from projections.authorization import Authorization
    from projections.embedding.semantics import Semantics
    from projections.moment import Moment
    from projections.recall.context import Context
    from projections.recall.request import RecallRequest
    from projections.view import View


class Gate(Struct, frozen=True):
    """Least effective confidence of a candidate, and whether contradicted ones may pass."""

    effective_min: float
    contradicted: bool


class Survey(Struct, frozen=True):
    """One request's facts. Masks are by slot, ``visible`` and ``survivors`` ascending slots.

    ``focus`` is the number of the entity asked about: None where none was, -1 where the
    node does not know it. ``semantics`` is None where embeddings are off,
    ``context`` where the profile asks for none.
    """

    view: View
    authorization: Authorization
    moment: Moment
    request: RecallRequest
    gate: Gate
    depth: int
    focus: int | None
    visible: I32
    visible_mask: Bool
    survivors: I32
    survivor_mask: Bool
    semantics: Semantics | None = None
    context: Context | None = None

    def effective(self, slots: I32) -> F64:
        """Confidence times source trust, at the Moment."""
        view, moment = self.view, self.moment
        return view.confidence(slots, moment) * view.trust(slots, moment)

    def admits(self, slots: I32) -> I32:
        """Those of ``slots`` that pass the gate, in the order given."""
        slots = slots[self.effective(slots) >= self.gate.effective_min]
        if self.gate.contradicted or not len(slots):
            return slots
        return slots[~self.view.contradicted(slots, self.moment, self.authorization)]

    def walkable(self, slots: I32) -> I32:
        """Those of ``slots`` that the graph may be walked along."""
        return self.admits(slots[self.visible_mask[slots]])


def survey(
    view: View,
    request: RecallRequest,
    authorization: Authorization,
    moment: Moment,
    *,
    gate: Gate,
    depth: int,
    semantics: Semantics | None = None,
    context: Context | None = None,
) -> Survey:
    """What this caller may see at this Moment, and what of it the request's filters leave."""
    if request.scopes is not None:
        authorization = authorization.narrowed(request.scopes)
    visible = surfacing(view, live(view, authorization, moment))
    survivors = visible
    for column, interner, wanted in (
        (view.relation, view.relations, request.relation),
        (view.source, view.sources, request.source),
    ):
        if wanted is not None:
            number = interner.number(wanted)
            survivors = survivors[column[survivors] == (-1 if number is None else number)]
    focus: int | None = None
    if request.entity is not None:
        found = view.entities.number(request.entity)
        focus = -1 if found is None else found
    visible_mask = _mask(view.count, visible)
    return Survey(
        view=view,
        authorization=authorization,
        moment=moment,
        request=request,
        gate=gate,
        depth=depth,
        focus=focus,
        visible=visible,
        visible_mask=visible_mask,
        survivors=survivors,
        survivor_mask=visible_mask if survivors is visible else _mask(view.count, survivors),
        semantics=semantics,
        context=context,
    )


def _mask(count: int, slots: I32) -> Bool:
    mask = np.zeros(count, dtype=np.bool_)
    mask[slots] = True
    return mask
