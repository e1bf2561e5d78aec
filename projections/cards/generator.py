"""Makes a card from a reader's facts: groups them, fetches their rows, writes the text."""

from collections.abc import Callable, Sequence

import numpy as np

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.cards.content import Card, write_card
from engramlog.projections.cards.fact import CardFact, Status
from engramlog.projections.cards.inputs import AskedCard, CardInputs, card_inputs
from engramlog.projections.image.view import View
from engramlog.projections.tables.facts.cards import CardKey
from engramlog.projections.tables.facts.fact_rows import FactRow

FETCHED_MAX = 1_000
"""Facts whose rows are read, best first: more than ever fit into a card."""
GROUP_MAX = 100
"""Facts of one contradiction that are read, best first."""

Rows = Callable[[Sequence[int]], list[FactRow]]
"""Rows of the facts asserted at these positions, in that order; absent ones are left out."""


def card_at(asked: AskedCard, rows: Rows) -> Card | None:
    """The card that a reader asks for; None without facts."""
    return card_of(asked.view, rows, asked.key, card_inputs(asked))


def card_of(view: View, rows: Rows, key: CardKey, inputs: CardInputs) -> Card | None:
    if not len(inputs.members):
        return None
    groups = _groups(view, inputs)
    indices = [index for group in groups for index in group]
    positions: list[int] = view.from_position[inputs.slots[indices]].tolist()
    by_position = {row.position: row for row in rows(positions)}
    facts = {
        index: _fact(by_position[position], inputs, index)
        for index, position in zip(indices, positions, strict=True)
        if position in by_position  # a fact erased since the view was pinned has no row
    }
    written = [[facts[index] for index in group if index in facts] for group in groups]
    return write_card(
        key,
        [group for group in written if group],
        facts=len(inputs.members),
        contradictions=len(np.unique(view.key[inputs.contested])),
        denied=bool((inputs.disputed & ~inputs.opposed).any()),
    )


def _groups(view: View, inputs: CardInputs) -> list[list[int]]:
    """Indices into the inputs, in groups, best first; as many as can matter.

    Of equal confidence, voices take turns, newest first: none fills the card alone.
    """
    slots = inputs.slots
    keys: I64 = np.where(inputs.opposed, view.key[slots], -1).astype(np.int64)
    order = np.lexsort((slots, -view.hlc[slots], -inputs.effective))
    sides: dict[int, list[int]] = {}
    for index in order[keys[order] >= 0].tolist():
        sides.setdefault(int(keys[index]), []).append(index)
    turns = _turns(view.voices(slots[order]), inputs.effective[order])
    order = order[np.lexsort((turns, -inputs.effective[order]))]
    groups: list[list[int]] = []
    fetched = 0
    for index in order[inputs.member[order]].tolist():
        if fetched >= FETCHED_MAX:
            break
        key = int(keys[index])
        if key >= 0 and key not in sides:
            continue  # already in its contradiction's group
        group = _best_sides(view, inputs, sides.pop(key)) if key >= 0 else [index]
        groups.append(group)
        fetched += len(group)
    return groups


def _best_sides(view: View, inputs: CardInputs, group: list[int]) -> list[int]:
    """As many facts of a contradiction as are read, best first. Voices take turns with their
    values, so that none takes the others' sides away."""
    if len(group) <= GROUP_MAX:
        return group
    slots = inputs.slots[group]
    again = _turns(view.value[slots]) > 0  # values once, before any of them twice
    turns = _turns(view.voices(slots), again)
    kept: list[int] = np.sort(np.lexsort((turns, again))[:GROUP_MAX]).tolist()
    return [group[n] for n in kept]


def _turns(*columns: I32 | I64 | F64 | Bool) -> I64:
    """How many rows with equal columns come before each."""
    order = np.lexsort(columns)  # stable
    begins = np.zeros(len(order), dtype=np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[order][1:] != column[order][:-1]
    places: I64 = np.arange(len(order), dtype=np.int64)
    turns: I64 = np.empty(len(order), dtype=np.int64)
    turns[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return turns


def _fact(row: FactRow, inputs: CardInputs, index: int) -> CardFact:
    status: Status = "current"
    if inputs.aside[index]:
        status = "set aside"
    elif inputs.disputed[index]:
        status = "contradicted"
    return CardFact(
        id=row.id,
        relation=row.relation,
        value=row.value_v,
        value_type=row.value_type,
        confidence=float(inputs.confidence[index]),
        trust=float(inputs.trust[index]),
        source=row.source,
        hlc=row.hlc,
        recorded_at=row.recorded_at,
        position=row.position,
        cid=row.cid,
        status=status,
        member=bool(inputs.member[index]),
    )
