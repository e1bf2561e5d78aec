"""The laws of the projections, over random histories."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings

from api.node import Node
from eventlog.clock import FixedClock
from eventlog.event import Recorded
from projections.authorization import everything as every_right
from projections.columns import COLUMN_TYPES
from projections.database import query
from projections.digest import Digests, compute_digests
from projections.intents import SweepDecay
from projections.mirror import Mirror
from projections.moment import LIVE, Moment
from projections.normalization import normalize_ref
from projections.selection import known, live
from projections.store import ProjectionStore
from projections.view import View
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
        for name in COLUMN_TYPES:
            columns = [each.columns.arrays[name][: each.published] for each in (filled, followed)]
            if name in NUMBERED:
                columns = [by_first_appearance(column) for column in columns]
            np.testing.assert_array_equal(*columns, err_msg=name)
        assert filled.slot_of == followed.slot_of
        for position in range(followed.position + 1):
            moment = Moment(position, node.log.received_at(position))
            assert judged(filled.pin(), moment) == judged(followed.pin(), moment)


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


@given(histories())
@QUICK
def test_conflicts_are_the_newest_against_each_other_value(steps: list[Step]) -> None:
    with lived(steps) as node, node.reader.pool.connection() as db:
        live_values: dict[tuple[object, ...], set[object]] = {}
        newest: dict[tuple[object, ...], tuple[int, object]] = {}
        for entity, relation, scope, kind, v, hlc in db.execute(
            "SELECT entity, relation, scope, value_type, value_v, hlc FROM facts"
            " WHERE to_position=?1 AND set_aside=?1 AND base_confidence>0",
            (LIVE,),
        ):
            key = (entity, relation, scope)
            live_values.setdefault(key, set()).add((kind, v))
            newest[key] = max(newest.get(key, (0, None)), (hlc, (kind, v)))  # type: ignore[type-var]
        open_rows = db.execute(
            "SELECT c.entity, c.relation, c.scope, f.value_type, f.value_v"
            " FROM conflicts c JOIN facts f ON f.id = c.fact_id WHERE c.to_position=?",
            (LIVE,),
        ).fetchall()
        assert len(set(open_rows)) == len(open_rows), "one open row a value"
        for *key, kind, v in open_rows:
            assert (kind, v) in live_values[tuple(key)]
            assert (kind, v) != newest[tuple(key)][1]


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
