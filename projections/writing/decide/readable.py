"""What a writer may read: nothing else may influence its decision.

The memory image knows every published fact, and masks it as for reads. Facts that the same group
stated come from the tables: they have no tombstone yet, and no review.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.image.view import View
from engramlog.projections.normalization import normalize_ref
from engramlog.projections.tables.database import json_list, query
from engramlog.projections.tables.facts.attributes import cleared_rows
from engramlog.projections.writing.decide.context import Context

_FRESH = """
SELECT id, entity, scope, garden_id, value_type, value_v, source FROM fact_rows AS facts
WHERE id IN (SELECT value FROM json_each(:facts)) AND {cleared}
"""


def readable(
    context: Context, rights: Authorization | None, facts: Iterable[str]
) -> frozenset[str]:
    """The facts (ids) that ``rights`` may read; all for None, the node's own tools. A write-only
    key sees only its own facts."""
    asked = list(dict.fromkeys(facts))
    if rights is None or not asked:
        return frozenset(asked)
    image = context.image
    slots: dict[str, int] = {}
    for fact in asked:
        slot = image.facts.slot_of.get(fact)
        if slot is not None and slot < image.published:
            slots[fact] = slot
    kept = _fresh(context, rights, [fact for fact in asked if fact not in slots])
    if slots:
        view = View(image)
        chosen = np.fromiter(slots.values(), np.int32, len(slots))
        mask = rights.mask(view, chosen)
        if not rights.may("read"):
            own = view.sources.number(rights.own_source)
            mask &= view.source[chosen] == (-1 if own is None else own)
        kept |= {fact for fact, allowed in zip(slots, mask.tolist(), strict=True) if allowed}
    return frozenset(kept)


def _fresh(context: Context, rights: Authorization, facts: Sequence[str]) -> set[str]:
    """The ids among ``facts`` that the caller may read, judged by rows: the memory image does not
    have them yet."""
    if not facts:
        return set()
    condition, bindings = cleared_rows("facts.id", rights)
    bindings["facts"] = json_list(facts)
    rows = query(context.db, _FRESH.format(cleared=condition), bindings)
    hiding = context.image.tombstones.hiding
    return {
        fact
        for fact, entity, scope, garden, kind, v, source in rows
        if scope in rights.scopes
        and (source == rights.own_source or rights.may("read"))
        and (garden is None or rights.every_garden or garden in rights.gardens)
        and rights.covers(entity)
        and not hiding.covers(entity, scope)
        and not (kind == "ref" and hiding.covers(normalize_ref(v), scope))
    }


def sees_all(context: Context, rights: Authorization | None) -> bool:
    """Whether ``rights`` see every published fact of their scopes and gardens: nothing is
    classified, hidden or held back."""
    return rights is None or (
        rights.may("read")
        and not context.image.attributes.confidential
        and not context.image.tombstones.hiding
        and not rights.withheld
        and not rights.entities
        and rights.ceiling >= OPEN_CLASS
    )
