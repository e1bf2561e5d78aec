"""The laws of the projections, over histories that happen in gardens too."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from engramlog.api.answers.wire_facts import quarantine_of
from engramlog.api.node.node import Node
from engramlog.api.transfer.exporting import export_lines
from engramlog.api.transfer.importing import Importer, Options
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View, everything
from engramlog.projections.moment import Moment
from engramlog.projections.tables.database import query
from tests.worlds.busy_life import BUSY
from tests.worlds.image_contents import contents
from tests.worlds.private_steps import START_US, Step, histories
from tests.worlds.private_worlds import Life, garden_members
from tests.worlds.replaying import digests_in_pages, judged, replayed

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
def test_each_part_of_an_image_that_followed_equals_a_loaded_one(
    history: list[Step],
) -> None:
    with lived(history) as node:
        followed, loaded = node.reader.image, MemoryImage()
        with node.reader.pool.connection() as db:
            loaded.load(db, followed.position)
        those = contents(followed)
        for part, these in contents(loaded).items():
            assert these == those[part], part
        for position in range(followed.position + 1):
            moment = Moment(position, node.log.received_at(position))
            one, other = View(loaded), View(followed)
            assert judged(one, moment) == judged(other, moment)
            assert reviewed(one, moment) == reviewed(other, moment)


@given(histories(max_size=12))
@QUICK
def test_the_past_equals_a_node_with_only_those_events(history: list[Step]) -> None:
    with lived(history) as node:
        events = node.log.read(0, 10_000)
        view = node.reader.pin()
        for position in range(1, len(events) + 1):
            moment = Moment(position, events[position - 1].received_at)
            with replayed(events[:position], 4) as store:
                alone = MemoryImage()
                alone.load(store.db, position)
                past = View(alone)
                assert judged(view, moment) == judged(past, moment)
                assert reviewed(view, moment)[: past.count] == reviewed(past, moment)


def test_an_imported_export_keeps_private_facts_private(tmp_path: Path) -> None:
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
