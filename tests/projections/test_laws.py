"""The laws of the projections, over random histories."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.node import Node
from eventlog.clock import FixedClock
from eventlog.event import Recorded
from eventlog.kinds import FactErased
from projections.authorization import everything as every_right
from projections.columns import COLUMN_TYPES
from projections.database import query
from projections.digest import Digests, compute_digests
from projections.intents import EraseFacts, SweepDecay
from projections.mirror import NOWHERE, Mirror
from projections.moment import LIVE, Moment
from projections.normalization import normalize_ref
from projections.registry import PROJECTORS
from projections.selection import known, live
from projections.store import ProjectionStore
from projections.view import View
from replay.verify import verify
from tests.projections.histories import (
    DAY_US,
    HALF_LIFE,
    SOURCES,
    START_US,
    VALUES,
    Step,
    asserted,
    histories,
    live_through,
    live_through_in_groups,
)

RIGHTS = every_right()
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@contextmanager
def lived(steps: list[Step]) -> Generator[Node, None, None]:
    """A node that went through a history."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            live_through(node, steps)
            yield node
        finally:
            node.close()


@contextmanager
def replayed(events: Sequence[Recorded], page: int) -> Generator[ProjectionStore, None, None]:
    """A store that was given events in pages of a size."""
    with tempfile.TemporaryDirectory() as folder:
        store = ProjectionStore(Path(folder) / "projections.db", strict=True)
        try:
            for start in range(0, len(events), page):
                with store.db:
                    store.apply(events[start : start + page])
            assert not store.halted
            yield store
        finally:
            store.close()


def digests_in_pages(events: Sequence[Recorded], page: int) -> Digests:
    with replayed(events, page) as store:
        return compute_digests(store.db)


@given(histories())
@QUICK
def test_rows_do_not_depend_on_how_events_were_batched(steps: list[Step]) -> None:
    with lived(steps) as node:
        events = node.log.read(0, 10_000)
        served = node.reader.digests()
    for page in (1, 3, len(events)):
        assert digests_in_pages(events, page).tables == served.tables


@given(histories(), st.lists(st.integers(1, 9), min_size=1, max_size=3))
@QUICK
def test_rows_do_not_depend_on_how_commands_were_grouped(
    steps: list[Step], sizes: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            live_through_in_groups(node, steps, sizes)
            events = node.log.read(0, 10_000)
            served = node.reader.digests()
            report = node.rebuild()
        finally:
            node.close()
    assert (report.compared, report.digest) == (True, served.local)
    for page in (1, 7):
        again = digests_in_pages(events, page)
        assert (again.local, again.shared) == (served.local, served.shared)


@given(histories())
@QUICK
def test_a_rebuild_while_serving_gives_equal_digests(steps: list[Step]) -> None:
    with lived(steps) as node:
        before = node.reader.digests()
        report = node.rebuild()
        assert report.compared
        assert report.digest == before.local
        assert node.reader.digests() == before


@given(histories())
@QUICK
def test_a_mirror_that_followed_equals_one_that_was_filled(steps: list[Step]) -> None:
    with lived(steps) as node:
        followed = node.reader.mirror
        filled = Mirror()
        with node.reader.pool.connection() as db:
            filled.fill(db, followed.position)
        kept = followed.columns.arrays["scope"][: followed.published] != NOWHERE
        for name in COLUMN_TYPES:
            columns = [
                filled.columns.arrays[name][: filled.published],
                followed.columns.arrays[name][: followed.published][kept],
            ]
            if name in NUMBERED:
                columns = [by_first_appearance(column) for column in columns]
            np.testing.assert_array_equal(*columns, err_msg=name)
        assert placed(filled, filled.slot_of.items()) == placed(followed, followed.slot_of.items())
        assert listed(filled) == listed(followed)
        if kept.all():  # a key that was crowded stays so: it only saves a look
            assert crowded(filled) == crowded(followed)
        for position in range(followed.position + 1):
            moment = Moment(position, node.log.received_at(position))
            assert judged(filled.pin(), moment) == judged(followed.pin(), moment)


def placed(mirror: Mirror, slots: Iterable[tuple[object, int]]) -> dict[object, int]:
    """Names of slots, by the position of the fact: erased ones leave slots that nobody has."""
    starts = mirror.columns.arrays["from_position"]
    return {name: int(starts[slot]) for name, slot in slots}


def listed(mirror: Mirror) -> list[object]:
    """Every slot list and posting list of a mirror that is not empty, by name."""
    view = mirror.pin()
    starts = view.from_position
    entities = {
        view.entities.text(n): (
            starts[view.entity_slots(n)].tolist(),
            starts[view.object_slots(n)].tolist(),
        )
        for n in range(len(view.entities))
    }
    return [
        {name: lists for name, lists in entities.items() if lists != ([], [])},
        sorted(starts[view.key_slots(key)].tolist() for key in mirror.by_key._lists),
        {
            term: (starts[view.postings(term)[0]].tolist(), view.postings(term)[1].tolist())
            for term in mirror.by_term._lists
        },
        {cid: starts[view.cid_slots(cid)].tolist() for cid in mirror.by_cid._lists},
    ]


def crowded(mirror: Mirror) -> dict[object, bool]:
    """Which keys have more than one fact."""
    return {key: bool(mirror.crowded[number]) for key, number in mirror.key_numbers.items()}


NUMBERED = {"entity", "relation", "source", "garden", "value", "key", "object"}
"""Columns of interned numbers: which number a text has is nobody's business."""


def by_first_appearance(column: np.ndarray) -> np.ndarray:
    """The column with its numbers renamed in the order in which they appear."""
    _, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def judged(view: View, moment: Moment) -> dict[int, tuple[object, ...]]:
    """All that a view says of each fact at a moment, by the fact's position."""
    slots = known(view, RIGHTS, moment)
    standing = set(live(view, RIGHTS, moment).tolist())
    return {
        int(view.from_position[slot]): (
            slot in standing,
            float(view.confidence(slots[index : index + 1], moment)[0]),
            float(view.trust(slots[index : index + 1], moment)[0]),
            int(view.access_count(slots[index : index + 1], moment)[0]),
            bool(view.contradicted(slots[index : index + 1], moment, RIGHTS)[0]),
        )
        for index, slot in enumerate(slots.tolist())
    }


@given(histories(max_size=15))
@QUICK
def test_the_past_is_what_a_node_with_only_those_events_says(steps: list[Step]) -> None:
    with lived(steps) as node:
        events = node.log.read(0, 10_000)
        view = node.reader.pin()
        for position in range(1, len(events) + 1):
            moment = Moment(position, events[position - 1].received_at)
            with replayed(events[:position], 4) as store:
                alone = Mirror()
                alone.fill(store.db, position)
                assert judged(view, moment) == judged(alone.pin(), moment)


@given(histories())
@QUICK
def test_edges_mirror_their_facts(steps: list[Step]) -> None:
    with lived(steps) as node, node.reader.pool.connection() as db:
        facts = {
            row[0]: row[1:]
            for row in db.execute(
                "SELECT id, entity, relation, value_v, scope, confidence, to_position"
                " FROM facts WHERE value_type='ref'"
            )
        }
        edges = {
            row[0]: row[1:]
            for row in db.execute(
                "SELECT id, subject, relation, object, scope, confidence, to_position"
                " FROM entity_edges"
            )
        }
        assert edges == {
            fact: (entity, relation, normalize_ref(str(v)), *rest)
            for fact, (entity, relation, v, *rest) in facts.items()
        }


@given(histories())
@QUICK
def test_materialised_confidence_is_the_defined_one(steps: list[Step]) -> None:
    with lived(steps) as node:
        view = node.reader.pin()
        moment = node.moment()
        slots = known(view, RIGHTS, moment)
        with node.reader.pool.connection() as db:
            rows = query(db, "SELECT from_position, confidence FROM facts")
        stored = dict(rows)
        for slot, confidence in zip(slots, view.confidence(slots, moment), strict=True):
            assert stored[int(view.from_position[slot])] == confidence


@given(histories())
@QUICK
def test_every_fact_that_ended_has_its_retraction(steps: list[Step]) -> None:
    with lived(steps) as node, node.reader.pool.connection() as db:
        ended = dict(
            db.execute("SELECT id, to_position FROM facts WHERE to_position <> ?", (LIVE,))
        )
        assert ended == dict(db.execute("SELECT fact_id, position FROM fact_retractions"))


NAMING_NO_FACT = {
    # A resolution that stays names its winner, by its id.
    "conflicts": "fact_id, opened_by",
    # So does an event that applied deltas, where it made other facts as well.
    "deltas": "delta_id, name, subject, sources, payload, provenance, lineage",
}


@given(histories())
@QUICK
def test_what_was_erased_is_nowhere_and_the_chain_stands(steps: list[Step]) -> None:
    with lived(steps) as node:
        erased = {
            fact
            for event in node.log.read(0, 10_000)
            if isinstance(event.payload, FactErased)
            for fact in event.payload.fact_ids
        }
        assert verify(node.log).fault is None
        assert not erased & node.reader.mirror.slot_of.keys()
        with node.reader.pool.connection() as db:
            for projector in PROJECTORS:
                if projector.name == "erasures":
                    continue  # they name the facts, by their ids
                for table in projector.tables:
                    columns = NAMING_NO_FACT.get(table, "*")
                    told = " ".join(map(str, query(db, f"SELECT {columns} FROM {table}")))
                    assert not [fact for fact in erased if fact in told], table
            orphans = (
                "SELECT count(*) FROM lexicon WHERE rowid NOT IN (SELECT from_position FROM facts)"
            )
            assert query(db, orphans) == [(0,)]


def test_erasing_the_newest_of_three_values_leaves_the_dispute_of_the_other_two() -> None:
    values = [asserted(value=value) for value in (VALUES[0], VALUES[1], VALUES[4])]
    steps = [Step("assert", START_US + n, 0, intent) for n, intent in enumerate(values)]
    with lived(steps) as node:
        first, second, third = node.reader.mirror.slot_of
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
        (fact,) = node.reader.mirror.slot_of
        at = node.reader.mirror.position
        node.write(EraseFacts(erasure_id="e", fact_ids=(fact,)))
        view = node.reader.pin()
        for position in range(view.position + 1):
            assert not len(known(view, RIGHTS, Moment(position, START_US)))
        assert at < view.position


def test_histories_reach_resolutions_and_decay() -> None:
    """The moves mean what the laws speak of."""
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
        assert confidences == {False: 0.5, True: 1.0}, "half-lives spare the node's own records"
