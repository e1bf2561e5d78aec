"""The content of each part of a memory image, in names and positions: two images of the same memory
may number texts and slots differently, and must still agree."""

from collections.abc import Callable, Iterable

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.columns.columns import COLUMN_TYPES
from engramlog.projections.columns.fact_columns import NOWHERE
from engramlog.projections.columns.slot_lists import Postings
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.rights.trust_formula import WARRANTS

NAMED = {"entity", "relation", "source", "garden", "object", "origin"}
OTHERS = {"value", "key", "classification"}
"""Columns of numbers without meaning by themselves, and one of another part."""


def contents(image: MemoryImage) -> dict[str, object]:
    """By name of the part. An unknown part is an error."""
    return {name: _CONTENTS[name](image) for name in image.parts}


def kept(image: MemoryImage) -> I32:
    """Slots of facts that were not erased."""
    return np.flatnonzero(View(image).scope != NOWHERE).astype(np.int32)


def _positions(image: MemoryImage, slots: Iterable[int]) -> list[int]:
    starts = View(image).from_position
    return [int(starts[slot]) for slot in slots]


def _by_position(image: MemoryImage, by_slot: dict[int, object]) -> dict[int, object]:
    return dict(zip(_positions(image, by_slot), by_slot.values(), strict=True))


def _facts(image: MemoryImage) -> object:
    facts, view, slots = image.facts, View(image), kept(image)
    names = {
        "entity": facts.entities, "object": facts.entities, "relation": facts.relations,
        "source": facts.sources, "peer": facts.sources,
        "garden": facts.gardens, "origin": facts.origins,
    }  # fmt: skip
    columns: dict[str, object] = {}
    for column in COLUMN_TYPES.keys() - OTHERS:
        values = getattr(view, column)[slots].tolist()
        if column in names:
            values = [None if n < 0 else names[column].text(n) for n in values]
        columns[column] = values
    said = [view.value_text_of(slot) for slot in slots.tolist()]
    ids = {name: _positions(image, [slot])[0] for name, slot in facts.slot_of.items()}
    passages = _by_position(image, dict(facts.passages))
    attested = [slot for slot in facts.attested if view.scope[slot] != NOWHERE]
    return (columns, said, ids, passages, _positions(image, attested), _lists(image))


def _lists(image: MemoryImage) -> object:
    """Non-empty slot lists, by name; those of keys without names."""
    facts = image.facts

    def listed(postings: Postings, name: Callable[[object], object] | None) -> object:
        found = [(each, postings.slots(each, image.published)) for each in postings]
        lists = [(each, _positions(image, slots.tolist())) for each, slots in found if len(slots)]
        if name is None:
            return sorted(slots for _, slots in lists)
        return {name(each): slots for each, slots in lists}

    return [
        listed(facts.by_entity, facts.entities.text),  # type: ignore[arg-type]
        listed(facts.by_object, facts.entities.text),  # type: ignore[arg-type]
        listed(facts.by_source, facts.sources.text),  # type: ignore[arg-type]
        listed(facts.by_term, str),
        listed(facts.by_cid, str),
        listed(facts.by_key, None),
        listed(facts.reserved, str),
        listed(facts.summaries, str),
    ]


def _every_position(image: MemoryImage) -> range:
    return range(image.position + 1)


def _trust(image: MemoryImage) -> object:
    facts, trust = image.facts, image.trust
    names = sorted({facts.sources.text(n) for n in View(image).source[kept(image)].tolist()})
    numbers = np.array([facts.sources.number(name) for name in names], dtype=np.int32)
    warrants, peers = np.zeros(len(names), np.int8), np.full(len(names), -1, np.int32)
    return [
        (
            trust.policy(position),
            [trust.keyed(name, position) for name in names],
            [
                trust.at(numbers, np.full_like(warrants, warrant), peers, position).tolist()
                for warrant in range(WARRANTS)
            ],
        )
        for position in _every_position(image)
    ]


def _decay(image: MemoryImage) -> object:
    view, slots = View(image), kept(image)
    swept = image.decay.positions(image.position)
    levels = [image.decay.confidence(view, slots, position).tolist() for position in swept]
    return swept, levels


def _set_valued(image: MemoryImage) -> object:
    relation = View(image).relation[kept(image)].tolist()
    relations = {image.facts.relations.text(number) for number in relation}
    return [
        {name: image.set_valued.covers(name, position) for name in relations}
        for position in _every_position(image)
    ]


def _gardens(image: MemoryImage) -> object:
    quarantines = {image.facts.gardens.text(number) for number in image.gardens.quarantines}
    return quarantines, _by_position(image, dict(image.gardens.reviews))


def _attributes(image: MemoryImage) -> object:
    levels = View(image).classification[kept(image)].tolist()
    return levels, _by_position(image, dict(image.attributes.by_slot))


def _resolutions(image: MemoryImage) -> object:
    notes = image.resolutions.notes()
    return {
        at: image.facts.entities.text(about)
        for at, about in zip(_positions(image, notes), notes.values(), strict=True)
    }


def records_against(image: MemoryImage, slot: int) -> list[tuple[int, int]]:
    """Every denial of a fact: its position, and the record's slot."""
    denied = image.denials.denied
    found: list[tuple[int, int]] = []
    for number, runs in denied.runs(slot):
        positions, markers = (each.tolist() for each in denied.series[number].records())
        for start, end in zip(runs[::2], runs[1::2], strict=True):
            found += zip(positions[start:end], markers[start:end], strict=True)
    return found


def _denials(image: MemoryImage) -> object:
    return {
        at: sorted((place, *_positions(image, [m])) for place, m in records_against(image, slot))
        for slot in image.denials.denied.facts()
        for at in _positions(image, [slot])
    }


def _tombstones(image: MemoryImage) -> object:
    hidden = View(image).hidden(kept(image))
    return list(image.tombstones.hiding.tombstones), (None if hidden is None else hidden.tolist())


def _accesses(image: MemoryImage) -> object:
    slots = kept(image)
    return [
        (
            image.accesses.counts.at(slots, position).tolist(),
            [image.accesses.times.at(slot, position) for slot in slots.tolist()],
        )
        for position in _every_position(image)
    ]


def _feedback(image: MemoryImage) -> object:
    slots = kept(image)
    return [
        (
            image.feedback.cited.at(slots, position).tolist(),
            image.feedback.rejected.at(slots, position).tolist(),
        )
        for position in _every_position(image)
    ]


_CONTENTS: dict[str, Callable[[MemoryImage], object]] = {
    "trust": _trust,
    "decay": _decay,
    "set_valued": _set_valued,
    "facts": _facts,
    "gardens": _gardens,
    "erased": lambda image: image.erased.facts,
    "refused": lambda image: image.refused.places,
    "attributes": _attributes,
    "derivations": lambda image: _by_position(image, dict(image.derivations.parents)),
    "resolutions": _resolutions,
    "denials": _denials,
    "tombstones": _tombstones,
    "verdicts": lambda image: View(image).flags(kept(image)).tolist(),
    "accesses": _accesses,
    "feedback": _feedback,
}
