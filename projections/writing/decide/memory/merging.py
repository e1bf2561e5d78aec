"""Merging two memories (abmind A12): the newer stays and inherits the older one's counters.

A fact never changes, its confidence included. If the older one had more confidence, the newer one's
words are restated with that confidence, derived from both, and both end.
"""

import msgspec
import numpy as np

from engramlog.eventlog.event import fact_partition
from engramlog.eventlog.identifiers import id_bytes
from engramlog.eventlog.kinds import FactAttributes, MemoriesMerged, Parent
from engramlog.projections.arrays import I32
from engramlog.projections.cid import with_cid
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, live
from engramlog.projections.memories.attribute_rules import CONFIDENTIAL
from engramlog.projections.memories.deduplication_rules import INTEGRITY_MERGED
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.fact_rows import FactRow, fetch
from engramlog.projections.tables.recalls.access_counts import KEPT_MAX
from engramlog.projections.writing.commands import AssertFact, Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_touching
from engramlog.projections.writing.decide.facts.asserting import assert_fact
from engramlog.projections.writing.decide.facts.attributing import attributes_set
from engramlog.projections.writing.decide.memory.memories import ending
from engramlog.projections.writing.memory_commands import MergeMemories

_PLACE = ("source", "scope", "garden")
_NONE: I32 = np.empty(0, dtype=np.int32)
_ABSENT = Refused("fact_not_found", "fact not found", "ids")
_ENDED = Refused("fact_already_retracted", "the fact no longer holds", "ids")
_APART = Refused(
    "memories_apart", "only memories of one source in one scope or garden can be merged", "ids"
)


def merge_memories(command: MergeMemories, context: Context) -> Decision | Refused:
    """One atomic batch: the kept memory, its counters and attributes, and the end of the others.
    Hidden and absent memories look the same."""
    view = View(context.image)
    moment = Moment(view.position, context.now_us)
    named = [context.image.facts.slot_of.get(fact) for fact in command.fact_ids]
    slots = np.array(sorted({s for s in named if s is not None and s < view.count}), dtype=np.int32)
    rights = command.rights.alone()
    if len(known(view, rights, moment, slots)) < 2:
        return _ABSENT
    if len(live(view, rights, moment, slots)) < 2:
        return _ENDED
    older, newer = sorted(
        slots.tolist(), key=lambda slot: (int(view.hlc[slot]), int(view.from_position[slot]))
    )
    if any(getattr(view, name)[older] != getattr(view, name)[newer] for name in _PLACE):
        return _APART
    rows = fetch(context.db, [int(view.from_position[slot]) for slot in (older, newer)])
    check_touching(context, rights, rows[1].garden_id, _ABSENT)
    return _merged(command, context, view, moment, (older, newer), rows)


def _merged(
    command: MergeMemories,
    context: Context,
    view: View,
    moment: Moment,
    slots: tuple[int, int],
    rows: list[FactRow],
) -> Decision:
    """The merge of two memories, older first. The newer one is kept, unless the older is more
    confident: then a new fact repeats the older, and both end."""
    both: I32 = np.array(slots, dtype=np.int32)
    older, newer = rows
    standing = view.attributes(both, moment)
    attributes = _attributes(*standing)
    partition = fact_partition(newer.scope, newer.garden_id)
    if older.base_confidence > newer.base_confidence:
        stated = assert_fact(_restated(older, newer, attributes, command), context)
        assert stated.fact_id is not None
        kept, gone, first = stated.fact_id, [older.id, newer.id], id_bytes(stated.fact_id)
        counters = _counters(view, moment, kept, both, rows)
        drafts = [*stated.drafts, context.draft(counters, cause=first)]
    else:
        kept, gone = newer.id, [older.id]
        counters = _counters(view, moment, kept, both[:1], rows[:1], both[1:])
        counted = context.draft(counters)
        drafts, first = [counted], counted.event_id
        if attributes != standing[1]:
            drafts += attributes_set(kept, attributes, partition, context, first)
    confidential = attributes.classification >= CONFIDENTIAL
    end = ending("merged into", kept, gone, confidential=confidential)
    drafts.append(context.draft(end, partition, None if confidential else first))
    return Decision(drafts, fact_id=kept, retracted=tuple(gone))


def _attributes(older: FactAttributes, newer: FactAttributes) -> FactAttributes:
    """The newer one's attributes, with the greater relevance and the stricter classification."""
    return msgspec.structs.replace(
        newer,
        relevance=max(older.relevance, newer.relevance),
        classification=max(older.classification, newer.classification),
        integrity=INTEGRITY_MERGED,
    )


def _restated(
    older: FactRow, newer: FactRow, attributes: FactAttributes, command: MergeMemories
) -> AssertFact:
    """The newer one's words with the older one's confidence, derived from both."""
    parents = {row.cid: Parent(row.cid.removeprefix("sha256:"), row.id) for row in (older, newer)}
    restated = msgspec.structs.replace(
        newer.stated(),
        confidence=older.base_confidence,
        derived_from=list(parents.values()),
        write_mode="assert",
        attestation=None,
        attributes=attributes,
    )
    return AssertFact(with_cid(restated), rights=command.rights.alone())


def _counters(
    view: View,
    moment: Moment,
    kept: str,
    gone: I32,
    rows: list[FactRow],
    stays: I32 = _NONE,
) -> MemoriesMerged:
    """What the kept memory inherits from the ended ones. Only instants among the overall last ones:
    with the kept memory's own they are the last of the merged memory."""
    cited, rejected = view.feedback(gone, moment)
    theirs = [at for times in view.recall_times(gone, moment) for at in times]
    own = [at for times in view.recall_times(stays, moment) for at in times]
    last = sorted([*((at, False) for at in own), *((at, True) for at in theirs)])[-KEPT_MAX:]
    return MemoriesMerged(
        kept_id=kept,
        merged_ids=[row.id for row in rows],
        recalls=int(view.access_count(gone, moment).sum()),
        instants_us=[at for at, inherited in last if inherited],
        citations=int(cited.sum()),
        rejections=int(rejected.sum()),
    )
