"""Storing a memory: a new fact, or a repetition of what its owner has just said; and the facts that
it ends.

Decided alone, so the memory image shows everything before it: of two equal memories stored at once,
the second finds the first. Every look-up uses the writer's rights: unreadable facts change neither
the write nor the answer.
"""

from collections.abc import Iterable
from itertools import compress

import msgspec

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_bytes
from engramlog.eventlog.kinds import FactAsserted, FactRetracted
from engramlog.projections.arrays import I32
from engramlog.projections.image.view import View
from engramlog.projections.memories.attribute_rules import CONFIDENTIAL, PLAIN, misplaced
from engramlog.projections.memories.deduplication_rules import (
    PARAPHRASE_MIN,
    SHARED_WORDS_MIN,
    TOPIC_MEMORIES_MAX,
    alike_in_sense,
    announces_change,
    shared_words,
)
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.attributes import present_attributes
from engramlog.projections.tables.facts.fact_rows import fetch
from engramlog.projections.writing.commands import AssertFact, Refused
from engramlog.projections.writing.comparison_window import (
    confidential_memories,
    equal_memories,
    memories_beside,
    recent_memories,
)
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_writing
from engramlog.projections.writing.decide.facts.asserting import MISPLACED, assert_fact
from engramlog.projections.writing.decide.facts.attributing import attributes_set
from engramlog.projections.writing.memory_commands import StoreMemory

_LOOKED_AT = 1_000
"""How many memories have their topics looked up at a time."""


def store_memory(command: StoreMemory, context: Context) -> Decision | Refused:
    """State the memory as a new fact, or answer with the live one that its owner has just said."""
    fact, rights = command.assertion.fact, command.assertion.rights
    if misplaced(fact.attributes, fact.scope, fact.garden_id):
        return MISPLACED
    check_writing(context, rights, fact.garden_id, fact.scope)
    view = View(context.image)
    moment = Moment(view.position, context.now_us)
    standing = _said_just_now(command, view, moment)
    if standing is not None:
        return _skipped(fact, view, standing, context)
    ended = _superseded(command, view, moment) if command.supersede else []
    fact = _classified(command, view, moment)
    decision = assert_fact(AssertFact(fact, rights=rights), context)
    if not decision.created:
        return decision
    return _with_ends(decision, fact, _ids(view, ended, context), context)


def _said_just_now(command: StoreMemory, view: View, moment: Moment) -> int | None:
    """The owner's newest memory of the last minute that says the same, in equal words or with a
    similar vector and no difference in sense."""
    fact = command.assertion.fact
    recent = recent_memories(view, command.rights, moment, fact)
    texts = [view.value_text_of(slot) for slot in recent]
    for slot, text in zip(recent, texts, strict=True):
        if text == fact.value.v:
            return slot
    like = _like(command, recent, texts)
    alike = alike_in_sense(fact.value.v, [view.value_text_of(slot) for slot in like])
    return next(compress(like, alike), None)


def _like(command: StoreMemory, slots: list[int], texts: list[str]) -> list[int]:
    """The slots whose vectors mean the same as the new memory's."""
    if command.likeness is None or not slots:
        return []
    cosines = command.likeness.cosines(command.assertion.fact.value.v, texts)
    return [slot for slot, cosine in zip(slots, cosines, strict=True) if cosine >= PARAPHRASE_MIN]


def _skipped(fact: FactAsserted, view: View, slot: int, context: Context) -> Decision:
    """Answer with the existing memory; a more confidential repetition raises its classification."""
    name = _ids(view, [slot], context)[0]
    given = (fact.attributes or PLAIN).classification
    standing = present_attributes(context.db, name) or PLAIN
    drafts: list[Draft] = []
    if given > standing.classification:
        raised = msgspec.structs.replace(standing, classification=given)
        partition = fact_partition(fact.scope, fact.garden_id)
        drafts = attributes_set(name, raised, partition, context)
    return Decision(drafts, fact_id=name, created=False)


def _classified(command: StoreMemory, view: View, moment: Moment) -> FactAsserted:
    """The fact, classified at least as high as any readable equal text, or readable confidential
    text with the same meaning."""
    fact = command.assertion.fact
    known = equal_memories(view, command.rights, moment, fact.value)
    secret = confidential_memories(view, command.rights, moment)
    texts = [view.value_text_of(slot) for slot in secret]
    known = [*known, *_like(command, secret, texts)]
    attributes = fact.attributes or PLAIN
    highest = max((int(view.classification[slot]) for slot in known), default=0)
    if highest <= attributes.classification:
        return fact
    raised = msgspec.structs.replace(attributes, classification=highest)
    return msgspec.structs.replace(fact, attributes=raised)


def _superseded(command: StoreMemory, view: View, moment: Moment) -> list[int]:
    """The owner's memories of the topic that the new one replaces."""
    fact = command.assertion.fact
    topic = (fact.attributes or PLAIN).topic
    text = fact.value.v
    if topic == PLAIN.topic or not announces_change(text):
        return []
    own = memories_beside(view, command.rights, moment, fact)
    newest = _of_topic(view, moment, own[::-1], topic)
    others = [slot for slot in newest if view.value_text_of(slot) != text]
    return [
        slot for slot in others if shared_words(text, view.value_text_of(slot)) >= SHARED_WORDS_MIN
    ]


def _of_topic(view: View, moment: Moment, slots: I32, topic: str) -> list[int]:
    """The first ``TOPIC_MEMORIES_MAX`` of the topic."""
    found: list[int] = []
    for start in range(0, len(slots), _LOOKED_AT):
        some = slots[start : start + _LOOKED_AT]
        stated = view.stated_attributes(some, moment)
        found += [
            slot
            for slot, attributes in zip(some.tolist(), stated, strict=True)
            if attributes is not None and attributes.topic == topic
        ]
        if len(found) >= TOPIC_MEMORIES_MAX:
            break
    return found[:TOPIC_MEMORIES_MAX]


def _with_ends(
    decision: Decision, fact: FactAsserted, ended: list[str], context: Context
) -> Decision:
    """The decision with a retraction of the facts that it ends, caused by it."""
    if not ended or decision.fact_id is None:
        return decision
    confidential = (fact.attributes or PLAIN).classification >= CONFIDENTIAL
    end = ending("superseded by", decision.fact_id, ended, confidential=confidential)
    cause = None if confidential else id_bytes(decision.fact_id)
    draft = context.draft(end, fact_partition(fact.scope, fact.garden_id), cause)
    return msgspec.structs.replace(
        decision, drafts=[*decision.drafts, draft], retracted=tuple(ended)
    )


def ending(how: str, fact: str, ended: list[str], *, confidential: bool) -> FactRetracted:
    """The retraction of memories because of another that a reader may not know: it neither names a
    confidential memory nor gives it as cause."""
    named = "a confidential memory" if confidential else fact
    return FactRetracted(fact_ids=ended, reason=f"{how} {named}")


def _ids(view: View, slots: Iterable[int], context: Context) -> list[str]:
    positions = [int(view.from_position[slot]) for slot in slots]
    return [row.id for row in fetch(context.db, positions)]
