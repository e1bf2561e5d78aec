"""The laws of the projections, over histories that happen in gardens too."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings

from api.exporting import export_lines
from api.importing import Importer, Options
from api.lines import decode_line
from api.node import Node
from api.records import quarantine_of
from api.sinks import NodeSink
from eventlog.clock import FixedClock
from projections.columns import COLUMN_TYPES
from projections.database import query
from projections.mirror import Mirror
from projections.moment import Moment
from projections.view import View, everything
from tests.api.private_worlds import START_US, Life, Step, garden_members, histories
from tests.api.test_no_leak import BUSY
from tests.projections.test_laws import (
    NUMBERED,
    by_first_appearance,
    digests_in_pages,
    judged,
    replayed,
)

QUICK = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def lived(history: list[Step]) -> Generator[Node]:
    """A node that went through a history."""
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "data", private=True)
        try:
            for step in history:
                life.take(step, 0)
            garden_members(life, "agent:guest", "reader")
            yield life.node
        finally:
            life.close()


def reviewed(view: View, moment: Moment) -> list[str | None]:
    return quarantine_of(view, everything(view), moment)


@given(histories())
@QUICK
def test_rows_depend_on_the_events_alone(history: list[Step]) -> None:
    with lived(history) as node:
        events = node.log.read(0, 10_000)
        served = node.reader.digests()
        report = node.rebuild()
        assert (report.compared, report.digest) == (True, served.local)
    for page in (1, 5, len(events)):
        assert digests_in_pages(events, page).tables == served.tables


@given(histories())
@QUICK
def test_a_mirror_that_followed_equals_one_that_was_filled(history: list[Step]) -> None:
    with lived(history) as node:
        followed, filled = node.reader.mirror, Mirror()
        with node.reader.pool.connection() as db:
            filled.fill(db, followed.position)
        for name in COLUMN_TYPES:
            columns = [getattr(mirror.pin(), name) for mirror in (filled, followed)]
            if name in NUMBERED - {"garden"}:
                columns = [by_first_appearance(column) for column in columns]
            if name == "garden":
                columns = [
                    np.array([m.gardens.text(n) if n >= 0 else "" for n in column.tolist()])
                    for m, column in zip((filled, followed), columns, strict=True)
                ]
            np.testing.assert_array_equal(*columns, err_msg=name)
        for position in range(followed.position + 1):
            moment = Moment(position, node.log.received_at(position))
            one, other = filled.pin(), followed.pin()
            assert judged(one, moment) == judged(other, moment)
            assert reviewed(one, moment) == reviewed(other, moment)


@given(histories(max_size=12))
@QUICK
def test_the_past_is_what_a_node_with_only_those_events_says(history: list[Step]) -> None:
    with lived(history) as node:
        events = node.log.read(0, 10_000)
        view = node.reader.pin()
        for position in range(1, len(events) + 1):
            moment = Moment(position, events[position - 1].received_at)
            with replayed(events[:position], 4) as store:
                alone = Mirror()
                alone.fill(store.db, position)
                past = alone.pin()
                assert judged(view, moment) == judged(past, moment)
                assert reviewed(view, moment)[: past.count] == reviewed(past, moment)


def test_an_export_read_back_keeps_what_is_private_private(tmp_path: Path) -> None:
    facts = (
        "SELECT slug, entity, relation, value_v, source, facts.scope, base_confidence,"
        " facts.to_position < 4611686018427387904, set_aside < 4611686018427387904"
        " FROM facts LEFT JOIN gardens ON gardens.id = garden_id"
        " WHERE entity NOT LIKE 'stigmem:resolution:%'"
        " ORDER BY facts.from_position"
    )
    members = (
        "SELECT slug, entity_uri, role, added_by, added_at, garden_members.to_position < 1 << 62"
        " FROM garden_members JOIN gardens ON gardens.id = garden_id"
        " ORDER BY garden_members.from_position"
    )
    gardens = "SELECT slug, name, scope, quarantine, created_by, created_at FROM gardens ORDER BY 1"
    with lived(BUSY) as node:
        lines = [line for _, line in export_lines(node.log)]
        with node.reader.pool.connection() as db:
            before = [query(db, sql) for sql in (facts, members, gardens)]
    clock = FixedClock(START_US)
    copy = Node.open(tmp_path / "copy", clock=clock, epoch_clock="file")
    try:
        sink = NodeSink(copy, 262_144, clock=clock)
        report = Importer(sink, Options(file_clock=True), decode_line).run(iter(lines))
        assert report.failed == 0
        with copy.reader.pool.connection() as db:
            after = [query(db, sql) for sql in (facts, members, gardens)]
    finally:
        copy.close()
    assert after == before
    assert any(row[0] == "ops" for row in before[0])
