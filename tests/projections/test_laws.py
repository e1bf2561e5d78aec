"""The laws of the projections, over random histories."""

import tempfile
from pathlib import Path

import apsw
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import FactErased
from engramlog.projections.columns.fact_columns import NOWHERE
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import LIVE, Moment
from engramlog.projections.normalization import normalize_ref
from engramlog.projections.tables.database import query
from engramlog.projections.tables.registry import PROJECTORS
from engramlog.projections.writing.commands import EraseFacts, SweepDecay
from engramlog.replay.verify import verify
from tests.worlds.histories import (
    DAY_US,
    HALF_LIFE,
    SOURCES,
    START_US,
    VALUES,
    Step,
    asserted,
    histories,
    live_through_in_groups,
)
from tests.worlds.image_contents import contents, kept
from tests.worlds.memory_histories import answers_at
from tests.worlds.replaying import (
    QUICK,
    RIGHTS,
    digests_in_pages,
    judged,
    lived,
    replayed,
)


@given(histories(), st.lists(st.integers(1, 9), min_size=1, max_size=3))
@QUICK
def test_rows_depend_on_the_events_alone(steps: list[Step], sizes: list[int]) -> None:
    """However commands were grouped and events are batched, also in a rebuild while serving."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            live_through_in_groups(node, steps, sizes)
            events = node.log.read(0, 10_000)
            served = node.reader.digests()
            report = node.rebuild()
            assert node.reader.digests() == served
        finally:
            node.close()
    assert (report.compared, report.digest) == (True, served.local)
    for page in (1, 7, len(events)):
        again = digests_in_pages(events, page)
        assert again.tables == served.tables
        assert (again.local, again.shared) == (served.local, served.shared)


@given(histories())
@QUICK
def test_each_part_of_a_memory_image_that_followed_equals_one_that_was_loaded(
    steps: list[Step],
) -> None:
    with lived(steps) as node:
        followed = node.reader.image
        loaded = MemoryImage()
        with node.reader.pool.connection() as db:
            loaded.load(db, followed.position)
        those = contents(followed)
        for part, these in contents(loaded).items():
            assert these == those[part], part
        if len(kept(followed)) == followed.published:
            # Crowded or confidential marks stay set: they only save look-ups.
            assert crowded(loaded) == crowded(followed)
            assert loaded.attributes.confidential == followed.attributes.confidential
        for position in range(followed.position + 1):
            moment = Moment(position, node.log.received_at(position))
            assert judged(View(loaded), moment) == judged(View(followed), moment)


def crowded(image: MemoryImage) -> int:
    """How many keys have more than one fact."""
    return int(np.count_nonzero(image.facts.crowded))


@given(histories(max_size=15))
@QUICK
def test_as_of_equals_a_node_with_only_those_events(steps: list[Step]) -> None:
    with lived(steps) as node:
        events = node.log.read(0, 10_000)
        view = node.reader.pin()
        with node.reader.pool.connection() as db:
            whole = [answers_at(db, position) for position in range(len(events) + 1)]
        for position in range(1, len(events) + 1):
            moment = Moment(position, events[position - 1].received_at)
            with replayed(events[:position], 4) as store:
                alone = MemoryImage()
                alone.load(store.db, position)
                assert judged(view, moment) == judged(View(alone), moment)
                assert answers_at(store.db, position) == whole[position], position


@given(histories())
@QUICK
def test_the_tables_of_facts_agree(steps: list[Step]) -> None:
    with lived(steps) as node, node.reader.pool.connection() as db:
        edges_mirror_their_facts(db)
        every_fact_that_ended_has_its_retraction(db)
        view, moment = node.reader.pin(), node.moment()
        slots = known(view, RIGHTS, moment)
        stored = dict(query(db, "SELECT from_position, confidence FROM facts"))
        for slot, confidence in zip(slots, view.confidence(slots, moment), strict=True):
            assert stored[int(view.from_position[slot])] == confidence  # as defined


def edges_mirror_their_facts(db: apsw.Connection) -> None:
    columns = "confidence, to_position FROM"
    facts = query(
        db,
        f"SELECT id, entity, relation, value_v, scope, {columns} facts WHERE value_type='ref'",
    )
    edges = query(db, f"SELECT id, subject, relation, object, scope, {columns} entity_edges")
    assert {edge: rest for edge, *rest in edges} == {
        fact: [entity, relation, normalize_ref(v), *rest]
        for fact, entity, relation, v, *rest in facts
    }


def every_fact_that_ended_has_its_retraction(db: apsw.Connection) -> None:
    ended = query(db, "SELECT id, to_position FROM facts WHERE to_position <> ?", (LIVE,))
    assert dict(ended) == dict(query(db, "SELECT fact_id, position FROM fact_retractions"))


MAY_NAME_ERASED = {
    # A remaining resolution names its winner.
    "conflicts": {"winner_id", "resolution_fact_id"},
    # The reason of a merged memory names the memory it went into.
    "fact_retractions": {"reason"},
    # A fact keeps its parents: a dangling parent is valid.
    "fact_rows": {"derived_from"},
    # An event of deltas that also made other facts.
    "deltas": {"fact_id", "replaces", "retracted"},
    # The index of what erasures name.
    "erasure_names": {"event_id"},
}
"""Columns that may name an erased fact, only by its id."""


@given(histories())
@QUICK
def test_erased_text_is_nowhere_and_the_chain_verifies(steps: list[Step]) -> None:
    with lived(steps) as node:
        erased = {
            fact
            for event in node.log.read(0, 10_000)
            if isinstance(event.payload, FactErased)
            for fact in event.payload.fact_ids
        }
        assert verify(node.log).fault is None
        facts = node.reader.image.facts
        assert erased.isdisjoint(facts.slot_of)
        gone = np.flatnonzero(facts.arrays["scope"][: facts.count] == NOWHERE)
        for lists in (facts.by_entity, facts.by_key, facts.by_object, facts.by_source,
                      facts.by_term, facts.by_cid, facts.reserved, facts.summaries):  # fmt: skip
            for name in lists:
                assert not np.isin(lists.slots(name, facts.count), gone).any(), name
        with node.reader.pool.connection() as db:
            for projector in PROJECTORS:
                if projector.name == "erasures":
                    continue  # they name the facts by their ids
                for table in projector.tables:
                    names = [row[1] for row in query(db, f"PRAGMA table_info({table})")]
                    for column in {*names} - MAY_NAME_ERASED.get(table, set()):
                        held = " ".join(map(str, query(db, f'SELECT "{column}" FROM {table}')))
                        assert not [fact for fact in erased if fact in held], (table, column)


def test_erasing_the_newest_of_three_values_leaves_the_dispute_of_the_other_two() -> None:
    values = [asserted(value=value) for value in (VALUES[0], VALUES[1], VALUES[4])]
    steps = [Step("assert", START_US + n, 0, intent) for n, intent in enumerate(values)]
    with lived(steps) as node:
        first, second, third = node.reader.image.facts.slot_of
        node.write(EraseFacts(erasure_id="e", fact_ids=(third,)))
        with node.reader.pool.connection() as db:
            open_conflicts = query(
                db, "SELECT fact_id, opened_by FROM conflicts WHERE to_position=?", (LIVE,)
            )
            assert open_conflicts == [(first, second)]
            assert query(db, "SELECT count(*) FROM conflicts") == [(1,)]
        assert node.rebuild().compared


def test_an_erased_fact_was_never_known_not_even_in_the_past() -> None:
    with lived([Step("assert", START_US, 0, asserted())]) as node:
        (fact,) = node.reader.image.facts.slot_of
        at = node.reader.image.position
        node.write(EraseFacts(erasure_id="e", fact_ids=(fact,)))
        view = node.reader.pin()
        for position in range(view.position + 1):
            assert not len(known(view, RIGHTS, Moment(position, START_US)))
        assert at < view.position


def test_histories_reach_resolutions_and_decay() -> None:
    """The random moves cover the cases of the laws."""
    steps = [
        Step("assert", START_US, 0, asserted(value=VALUES[0])),
        Step("assert", START_US, 0, asserted(value=VALUES[1], source=SOURCES[1])),
        Step("resolve", START_US, 0),
        Step("recall", START_US, 1),
        Step("do", START_US + DAY_US, 0, SweepDecay(scopes=("local",), policies=(HALF_LIFE,))),
        Step("retract", START_US + DAY_US, 0),
    ]
    with lived(steps) as node, node.reader.pool.connection() as db:
        assert query(db, "SELECT count(*) FROM conflicts WHERE winner_id IS NOT NULL") == [(1,)]
        assert query(db, "SELECT sum(access_count) FROM facts")[0][0] > 0
        standing = "SELECT entity, confidence FROM facts WHERE to_position=?"
        confidences = {
            entity.startswith("stigmem:resolution:"): confidence
            for entity, confidence in query(db, standing, (LIVE,))
        }
        assert confidences == {False: 0.5, True: 1.0}, "half-lives exempt the node's own records"
