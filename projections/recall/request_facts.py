"""The facts of one request, before any stage reads them.

Authorisation and the Moment come first: ``visible`` is all that exists for this request. Request
filters leave the ``survivors``, over which statistics are counted. ``admits`` is the gate that
every candidate and every walked edge must pass.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, Bool
from engramlog.projections.ascending import among
from engramlog.projections.authorization import Authorization
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View
from engramlog.projections.interner import Interner
from engramlog.projections.moment import Moment
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.matching_facts import Surviving, surviving
from engramlog.projections.recall.request import LIMIT, RecallRequest
from engramlog.projections.tables.declared.aliases import AliasBook


class Gate(Struct, frozen=True):
    """Least effective confidence of a candidate, and whether contradicted ones may pass."""

    effective_min: float
    contradicted: bool


class Survey(Struct, frozen=True):
    """One request's facts. Masks are by slot, ``visible`` and ``survivors`` are ascending slots;
    requests share them, so they are read-only.

    ``focus``: the number of the request's entity; None without one, -1 if the node does not know
    it. ``limit``: how many facts the answer may hold. ``semantics`` is None if embeddings are off,
    ``context`` if the profile has none, ``aliases`` if names are not looked up. ``filters``: those
    that left the survivors. ``names``: words of the question, with the speakers' names that
    replaced them. ``topic``: what replaced a question about a whole conversation.
    """

    view: View
    authorization: Authorization
    moment: Moment
    request: RecallRequest
    gate: Gate
    depth: int
    limit: int
    focus: int | None
    surviving: Surviving
    semantics: Semantics | None = None
    context: ConversationContext | None = None
    aliases: AliasBook | None = None
    filters: Filters = Filters()
    names: Mapping[str, str] = {}
    topic: str | None = None

    def filtered(self, filters: Filters) -> "Survey":
        """The same request with other filters."""
        if filters == self.filters:
            return self
        found = surviving(self.view, self.authorization, self.moment, filters)
        return msgspec.structs.replace(self, filters=filters, surviving=found)

    def without(self, relations: Sequence[str]) -> "Survey":
        """The same request without facts of some relations."""
        numbers = [self.view.relations.number(relation) for relation in relations]
        known = tuple(sorted({number for number in numbers if number is not None}))
        return self.filtered(msgspec.structs.replace(self.filters, without=known))

    @property
    def visible_mask(self) -> Bool:
        return self.surviving.visible.mask

    @property
    def survivors(self) -> I32:
        return self.surviving.survivors.slots

    @property
    def survivor_mask(self) -> Bool:
        return self.surviving.survivors.mask

    def holding(self, terms: Collection[str]) -> I32:
        """The survivors that hold all terms, ascending; none if there are no terms."""
        if not terms:
            return np.empty(0, dtype=np.int32)
        held, *others = sorted((self.view.postings(term)[0] for term in sorted(terms)), key=len)
        held = held[self.survivor_mask[held]]
        for slots in others:
            if not len(held):
                break
            held = held[among(held, slots)]
        return held

    def confident(self, above: float) -> I32:
        """Survivors with a confidence at the Moment above a bound."""
        return self.surviving.survivors.confident(self.view, self.moment, above)

    def effective(self, slots: I32) -> F64:
        """Confidence times source trust, at the Moment."""
        view, moment = self.view, self.moment
        return view.confidence(slots, moment) * view.trust(slots, moment)

    def admits(self, slots: I32) -> I32:
        """Those of ``slots`` that pass the gate, in the given order."""
        return slots[self.admitted(slots)]

    def admitted(self, slots: I32) -> Bool:
        """Which of ``slots`` pass the gate."""
        passed = self.effective(slots) >= self.gate.effective_min
        if not self.gate.contradicted and passed.any():
            passed[passed] = ~are_contradicted(
                self.view, slots[passed], self.moment, self.authorization
            )
        return passed

    def walkable(self, slots: I32) -> I32:
        """Those of ``slots`` that the graph may follow."""
        return self.admits(slots[self.visible_mask[slots]])


def survey(
    view: View,
    request: RecallRequest,
    authorization: Authorization,
    moment: Moment,
    *,
    gate: Gate,
    depth: int,
    limit: int = LIMIT,
    semantics: Semantics | None = None,
    context: ConversationContext | None = None,
    aliases: AliasBook | None = None,
) -> Survey:
    """The facts that this caller may see at this Moment, and those that pass the filters."""
    if request.scopes is not None:
        authorization = authorization.narrowed(request.scopes)
    filters = msgspec.structs.replace(
        request.filters,
        relation=_number(view.relations, request.relation),
        source=_number(view.sources, request.source),
        set_aside=request.include_contradicted is True,
    )
    return Survey(
        view=view,
        authorization=authorization,
        moment=moment,
        request=request,
        gate=gate,
        depth=depth,
        limit=limit,
        focus=_number(view.entities, request.entity),
        surviving=surviving(view, authorization, moment, filters),
        semantics=semantics,
        context=context,
        aliases=aliases,
        filters=filters,
    )


def _number(interner: Interner, text: str | None) -> int | None:
    """The number of a text: None for no text, -1 for one that never appeared."""
    if text is None:
        return None
    number = interner.number(text)
    return -1 if number is None else number
