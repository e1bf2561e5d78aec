"""What an event changed is what SQLite says its tables changed by, event after event."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import msgspec

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.projections.archive.rows import touched
from engramlog.projections.audit.effect_lookups import LOOKUPS, WORDS
from engramlog.projections.audit.effects import effects, lookups_of, named_in
from engramlog.projections.audit.journal import JournalEntry
from engramlog.projections.tables.registry import PROJECTORS
from engramlog.projections.tables.store import ProjectionStore
from tests.system.earlier_versions import VERSIONS, unpack

OWNER = {table: each.name for each in PROJECTORS for table in each.tables}
SMALL = frozenset(
    {"declarations", "key_sources", "gardens", "capability_revocations", "tombstone_revocations"}
)
"""Tables of what people declare."""
UNTOLD = frozenset({"claims", "delta_sources", "foreign_facts", "erasure_names"})
"""Tables whose rows are never listed, but for those of one fact of many: words say so."""
COUNTED = frozenset({"recall_served", "memories_merged"})
"""Kinds that also count in the rows of facts."""


def entry_of(event: Recorded) -> JournalEntry:
    """The event as its owner knows it."""
    body = {} if event.payload is None else msgspec.to_builtins(event.payload)
    return JournalEntry(event, touched(event.kind, id_text(event.event_id), body), body)


def test_the_rows_named_are_the_rows_that_changed(tmp_path: Path) -> None:
    path = unpack(VERSIONS / "0.1.0", tmp_path / "data") / "log.db"
    log = SqliteLog.open(path, origin="node", epoch=1, clock=FixedClock(0), read_only=True)
    store = ProjectionStore(tmp_path / "projections.db", history=log)
    try:
        wrong: list[tuple[object, ...]] = []
        for event in log.read(0, 10_000):
            with closing(apsw.Session(store.db, "main")) as session:
                session.attach()
                with store.db:
                    store.apply([event])
                changes = session.changeset()
            changed = Counter(
                OWNER[each.name]
                for each in apsw.Changeset.iter(changes)
                if each.name in OWNER and each.name not in UNTOLD
            )
            found = effects(store.db, entry_of(event), lambda _: True)
            for name in changed.keys() | found.keys():
                told = found[name].changed if name in found else 0
                in_words = name in found and found[name].words is not None
                counted = name == "facts" and event.kind in COUNTED
                if told != changed[name] and not in_words and not counted:
                    wrong.append((event.position, event.kind, name, told, changed[name]))
        assert wrong == []
    finally:
        store.close()
        log.close()


def test_of_every_projection_and_kind_it_is_said_what_changes() -> None:
    for projector in PROJECTORS:
        for kind in projector.kinds:
            rows = lookups_of(projector, kind)
            assert rows or kind in WORDS.get(projector.name, {}), (projector.name, kind)


def test_no_lookup_scans_a_table_that_grows_with_the_memory(tmp_path: Path) -> None:
    store = ProjectionStore(tmp_path / "projections.db")
    for lookup in LOOKUPS:
        sql = f"SELECT 1 FROM {lookup.table} WHERE {lookup.where}"
        plan = store.db.execute(f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(named_in(sql)))
        steps = [row[3] for row in plan]
        assert lookup.table in SMALL or f"SCAN {lookup.table}" not in steps, steps
    store.close()
