"""Writes the facts' columns, names and slot lists as sections of a file, and restores them.

The file holds the state at one position while the writer continues: columns and lists only grow,
and a later end carries its later position. Of erased facts only the taken slots are written.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I8, I32, I64
from engramlog.projections.ascending import ranges
from engramlog.projections.columns.columns import COLUMN_TYPES
from engramlog.projections.columns.fact_columns import NOWHERE, FactColumns
from engramlog.projections.columns.slot_lists import (
    Grown,
    HashedSlots,
    Lists,
    NumberedLists,
    Postings,
    appended,
    without,
)
from engramlog.projections.columns.term_postings import SealedTerms
from engramlog.projections.moment import LIVE
from engramlog.projections.sealed_sections import Laid, Sections
from engramlog.projections.text_table import TextTable, key_of, table_sections

_ENDS = ("to_position", "set_aside")
_SAID_BY_TEXT = ("length", "value_bytes", "asking", "valid_from", "valid_until", "base")
"""Columns that could reveal an erased fact's text."""
_NO_LISTS = Lists(np.zeros(1, dtype=np.int64), [np.zeros(0, dtype=np.int32)])


class FactsCut(Struct, frozen=True):
    """The sizes of everything at a position, and the values that later events change without a
    trace. The document that holds this record also holds its small values."""

    position: int
    count: int
    entities: int
    keys: int
    values: int
    relations: list[str]
    sources: list[str]
    gardens: list[str]
    origins: list[str]
    passages: dict[int, str]
    attested: bytes
    reserved: bytes
    summaries: bytes


def cut_of(facts: FactColumns, position: int, kept_sources: frozenset[int]) -> FactsCut:
    """The cut at the position just published. Call in the writer's thread. ``kept_sources``:
    numbers of sources that not only facts name."""
    count = facts.count
    relations, sources = facts.relations.since(0), facts.sources.since(0)
    live = facts.arrays["scope"][:count] != NOWHERE
    if not live.all():
        spoken = facts.arrays["relation"][:count][live]
        relations = _only(relations, set(np.unique(spoken).tolist()))
        named = {*np.unique(facts.arrays["source"][:count][live]).tolist(), *kept_sources}
        named |= set(np.unique(facts.arrays["peer"][:count][live]).tolist())
        sources = _only(sources, named)
    return FactsCut(
        position=position,
        count=count,
        entities=len(facts.entities),
        keys=len(facts.keys),
        values=len(facts.said),
        relations=relations,
        sources=sources,
        gardens=facts.gardens.since(0),
        origins=facts.origins.since(0),
        passages=dict(facts.passages),
        attested=facts.attested.tobytes(),
        reserved=facts.reserved.slots("", count).tobytes(),
        summaries=facts.summaries.slots("", count).tobytes(),
    )


def _only(texts: list[str], numbers: set[int]) -> list[str]:
    return [text if number in numbers else "" for number, text in enumerate(texts)]


def sections_of(facts: FactColumns, cut: FactsCut, classification: I8) -> Iterator[Laid]:
    """The large sections. ``classification``: a copy of that column as of the cut."""
    live = facts.arrays["scope"][: cut.count] != NOWHERE
    for name in COLUMN_TYPES:
        column = facts.arrays[name][: cut.count]
        if name == "classification":
            column = classification
        elif name in _ENDS:
            column = np.where(column > cut.position, LIVE, column)
        if name in _SAID_BY_TEXT and not live.all():
            column = np.where(live, column, np.zeros_like(column))
        yield Laid(f"column.{name}", column, _room(cut.count))
    yield Laid("crowded", facts.crowded[: cut.keys], _room(cut.keys))
    ids, said = facts.slot_of, facts.said
    yield from table_sections("ids", ids.sealed, ids.fresh_keys(cut.count), ids.gone)
    yield from table_sections("values", said.sealed, said.fresh_keys(cut.values), said.gone)
    yield from table_sections("keys", facts.keys.sealed, facts.keys.fresh_keys(cut.keys))
    yield from _entities(facts, cut)
    yield from _numbered("by_entity", facts.by_entity, cut.entities, cut)
    yield from _numbered("by_object", facts.by_object, cut.entities, cut)
    yield from _numbered("by_key", facts.by_key, cut.keys, cut)
    yield from _numbered("by_source", facts.by_source, len(cut.sources), cut)
    yield from _cids(facts.by_cid, cut)
    yield from _terms(facts, cut)


def _room(count: int) -> int:
    return max(1024, count + count // 4)


def _entities(facts: FactColumns, cut: FactsCut) -> Iterator[Laid]:
    """The entities, without those that only erased facts named."""
    names = facts.entities
    first = len(names.sealed)
    fresh = [key_of(text) for text in names.since(first)[: cut.entities - first]]
    live = facts.arrays["scope"][: cut.count] != NOWHERE
    gone: list[int] = []
    if not live.all():
        spoken = np.zeros(cut.entities, dtype=np.bool_)
        spoken[facts.arrays["entity"][: cut.count][live]] = True
        objects = facts.arrays["object"][: cut.count][live]
        spoken[objects[objects >= 0]] = True
        gone = np.flatnonzero(~spoken).tolist()
    return table_sections("entities", names.sealed, fresh, gone)


def _numbered(name: str, postings: Postings, count: int, cut: FactsCut) -> Iterator[Laid]:
    sealed = postings.sealed
    old = _NO_LISTS
    if isinstance(sealed, NumberedLists):
        old = Lists(sealed.starts, [sealed.all_slots])
    old = _undropped(old, postings)
    grown = postings.grown(cut.count)
    rows, lengths, slots, _ = _by_row(grown, np.array(grown.names, dtype=np.int64))
    lists = appended(old, rows, lengths, [slots], count)
    yield Laid(f"{name}.starts", lists.starts)
    yield Laid(f"{name}.slots", lists.columns[0])


def _cids(postings: Postings, cut: FactsCut) -> Iterator[Laid]:
    grown = postings.grown(cut.count)
    numbers = np.repeat(np.array(grown.names, dtype=np.uint64), grown.lengths)
    slots = grown.slots
    sealed = postings.sealed
    if isinstance(sealed, HashedSlots):
        kept = np.isin(sealed.all_slots, postings.dropped, invert=True)
        numbers = np.concatenate((sealed.numbers[kept], numbers))
        slots = np.concatenate((sealed.all_slots[kept], slots))
    order = np.lexsort((slots, numbers))
    yield Laid("by_cid.numbers", numbers[order])
    yield Laid("by_cid.slots", slots[order])


def _terms(facts: FactColumns, cut: FactsCut) -> Iterator[Laid]:
    """The sections of the terms' postings: those of the file below, and what was added since."""
    sealed = facts.by_term.sealed
    known = isinstance(sealed, SealedTerms)
    table = sealed.table if known else TextTable()
    nothing = Lists(_NO_LISTS.starts, [_NO_LISTS.columns[0], np.zeros(0, dtype=np.uint8)])
    old = _undropped(sealed.lists if known else nothing, facts.by_term)
    grown = facts.by_term.grown(cut.count)
    fresh: list[bytes] = []
    rows: list[int] = []
    for term, length in zip(grown.names, grown.lengths.tolist(), strict=True):
        key = key_of(term)
        row = table.number(key)
        if row is None:
            row = len(table) + len(fresh)
            if length:
                fresh.append(key)
        rows.append(row)
    row_numbers, lengths, repeated, of = _by_row(grown, np.array(rows, dtype=np.int64))
    first = np.ones(len(repeated), dtype=np.bool_)
    first[1:] = (repeated[1:] != repeated[:-1]) | (of[1:] != of[:-1])
    at = np.flatnonzero(first)
    often: I64 = np.diff(np.append(at, len(repeated)))
    lengths = np.bincount(of[first], minlength=len(row_numbers)).astype(np.int64)
    kind = np.promote_types(old.columns[1].dtype, np.min_scalar_type(int(often.max(initial=0))))
    columns = [repeated[first], often.astype(kind)]
    lists = appended(old, row_numbers, lengths, columns, len(table) + len(fresh))
    gone = np.flatnonzero(np.diff(lists.starts) == 0).tolist()
    yield from table_sections("terms", table, fresh, gone)
    yield Laid("by_term.starts", lists.starts)
    yield Laid("by_term.slots", lists.columns[0])
    yield Laid("by_term.often", lists.columns[1])


def _undropped(lists: Lists, postings: Postings) -> Lists:
    if not len(postings.dropped):
        return lists
    return without(lists, np.isin(lists.columns[0], postings.dropped))


def _by_row(grown: Grown, rows: I64) -> tuple[I64, I64, I32, I64]:
    """Grown lists in the order of their rows, without empty ones: the rows, the length of each
    list, all slots, and the list of each slot."""
    order = np.argsort(rows, kind="stable")
    order = order[grown.lengths[order] > 0]
    lengths = grown.lengths[order]
    begun = (np.cumsum(grown.lengths) - grown.lengths)[order]
    of = np.repeat(np.arange(len(order)), lengths)
    return rows[order], lengths, grown.slots[ranges(begun, begun + lengths)], of


def restore(facts: FactColumns, cut: FactsCut, sections: Sections) -> None:
    """Fill empty columns with the facts of an image file: ``cut`` has its small parts, ``sections``
    its arrays."""
    facts.count = facts.slots = cut.count
    facts.arrays = {name: sections.roomy(f"column.{name}") for name in COLUMN_TYPES}
    facts.crowded = sections.roomy("crowded")
    for texts, names in (
        (cut.relations, facts.relations),
        (cut.sources, facts.sources),
        (cut.gardens, facts.gardens),
        (cut.origins, facts.origins),
    ):
        names.fill(texts)
    facts.passages = dict(cut.passages)
    facts.attested = _slots(cut.attested)
    for slots, postings in ((cut.reserved, facts.reserved), (cut.summaries, facts.summaries)):
        for slot in _slots(slots):
            postings.add("", slot)
    rest(facts, sections)


def rest(facts: FactColumns, sections: Sections) -> None:
    """Keep the parts that never change in a file, or in another copy of the same file."""
    facts.slot_of.rest(TextTable(sections, "ids"))
    facts.said.rest(TextTable(sections, "values"))
    facts.keys.rest(TextTable(sections, "keys"))
    facts.entities.rest(TextTable(sections, "entities"))
    for name, postings in (
        ("by_entity", facts.by_entity),
        ("by_object", facts.by_object),
        ("by_key", facts.by_key),
        ("by_source", facts.by_source),
    ):
        starts, slots = sections.array(f"{name}.starts"), sections.array(f"{name}.slots")
        postings.rest(NumberedLists(starts, slots))
    numbers, slots = sections.array("by_cid.numbers"), sections.array("by_cid.slots")
    facts.by_cid.rest(HashedSlots(numbers, slots))
    lists: list[Any] = [sections.array(f"by_term.{part}") for part in ("starts", "slots", "often")]
    facts.by_term.rest(SealedTerms(TextTable(sections, "terms"), *lists))


def unmap(facts: FactColumns, sections: Sections) -> None:
    """Move everything into this process's memory, so that nothing of the file stays open.
    ``sections``: the file that the columns were restored from."""
    facts.arrays = {name: column.copy() for name, column in facts.arrays.items()}
    facts.crowded = facts.crowded.copy()
    rest(facts, sections.private())


def _slots(data: bytes) -> array[int]:
    found = array("i")
    found.frombytes(data)
    return found
