"""Edges over random histories: the promises of §20.1.3 beyond mirroring their facts."""

import shutil
import tempfile
import threading
from pathlib import Path

import apsw
import msgspec
import numpy as np
import pytest
from hypothesis import given

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import DecayPolicy, DecaySwept, Value
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import open_writer, query
from engramlog.projections.writing.commands import RetractFact, SweepDecay
from tests.worlds.histories import (
    DAY_US,
    HALF_LIFE,
    START_US,
    Step,
    asserted,
    histories,
)
from tests.worlds.replaying import QUICK, lived

REF = Value("ref", "stigmem://t/user/b")
_BOTH = """
SELECT facts.confidence, entity_edges.confidence FROM facts JOIN entity_edges USING (id)
"""


@given(histories())
@QUICK
def test_edges_are_soft_deleted_and_record_their_sweep(steps: list[Step]) -> None:
    with lived(steps) as node, node.reader.pool.connection() as db:
        sweeps = [
            event.payload.at_us // 1000
            for event in node.log.read(0, 10_000)
            if isinstance(event.payload, DecaySwept)
        ]
        rows = query(
            db,
            "SELECT edges.id, edges.confidence, decay_epoch, edges.to_position, base_confidence,"
            " retracted_at, cause FROM entity_edges AS edges JOIN facts USING (id)"
            " LEFT JOIN fact_retractions ON fact_id = id",
        )
        refs = query(db, "SELECT count(*) FROM facts WHERE value_type='ref'")
        assert [(len(rows),)] == refs, "one edge per ref fact, live or retracted"
        for _, confidence, epoch, ended, base, retracted_at, cause in rows:
            if ended != LIVE:
                assert (confidence, retracted_at is None) == (0.0, False)
            else:
                assert retracted_at is None
            if epoch is not None:
                assert epoch in sweeps
            elif cause != "retraction":
                assert confidence == base, "only a sweep weakens an edge"


def test_an_edge_and_its_fact_decay_in_one_transaction(tmp_path: Path) -> None:
    """Every read during sweeps shows fact and edge of the same sweep."""
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    seen: set[tuple[float, float]] = set()
    swept = threading.Event()

    def watch() -> None:
        with node.reader.pool.connection() as db:
            while not swept.is_set():
                seen.update(query(db, _BOTH))

    try:
        node.write(asserted(relation="tag:x", value=REF))
        watcher = threading.Thread(target=watch)
        watcher.start()
        policy = msgspec.structs.replace(HALF_LIFE, min_confidence=0.0)
        for day in range(1, 31):
            sweep = SweepDecay(scopes=("local",), policies=(policy,))
            at_us = START_US + day * DAY_US
            node.writer.submit([sweep], actor="agent:t", received_at=at_us).result()
        swept.set()
        watcher.join()
        with node.reader.pool.connection() as db:
            assert query(db, _BOTH) == [(0.0, 0.0)], "2^-30, rounded to six places"
    finally:
        swept.set()
        node.close()
    assert len(seen) > 1, "the watcher saw some sweeps"
    assert all(fact == edge for fact, edge in seen)


def test_a_retraction_weakens_edge_and_fact_and_is_recorded(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    try:
        fact = node.write(asserted(relation="rel:knows", value=REF))[0].fact_id  # type: ignore[union-attr]
        assert fact is not None
        node.write(RetractFact(fact_id=fact))
        with node.reader.pool.connection() as db:
            assert query(
                db,
                "SELECT facts.confidence, entity_edges.confidence, retracted_at FROM facts"
                " JOIN entity_edges USING (id) JOIN fact_retractions ON fact_id = id",
            ) == [(0.0, 0.0, START_US // 1000)]
    finally:
        node.close()


def test_a_sweep_that_ends_facts_records_when_and_by_whom(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    try:
        ended = node.write(asserted(scope="local"))[0].fact_id  # type: ignore[union-attr]
        node.write(asserted(scope="team"))
        policy = DecayPolicy(id="ttl", mode="retract", ttl_s=86_400.0)
        sweep = SweepDecay(scopes=("local",), policies=(policy,))
        at_us = START_US + DAY_US
        node.writer.submit([sweep], actor="agent:sweeper", received_at=at_us).result()
        with node.reader.pool.connection() as db:
            columns = "fact_id, position, cause, retracted_at, actor"
            assert query(db, f"SELECT {columns} FROM fact_retractions") == [
                (ended, node.log.head().position, "decay", at_us // 1000, "agent:sweeper")
            ]
    finally:
        node.close()


def test_a_sweep_weakens_no_record_about_the_nodes_own_entities(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    try:
        node.write(asserted("stigmem:resolution:x"), asserted("user:a"))
        sweep = SweepDecay(scopes=("local",), policies=(HALF_LIFE,))
        node.writer.submit([sweep], actor="agent:t", received_at=START_US + DAY_US).result()
        view = node.reader.pin()
        slots = np.arange(2, dtype=np.int32)
        assert view.confidence(slots, node.moment()).tolist() == [1.0, 0.5]
        with node.reader.pool.connection() as db:
            rows = query(db, "SELECT confidence FROM facts ORDER BY from_position")
        assert rows == [(1.0,), (0.5,)]
    finally:
        node.close()


def test_an_edge_cannot_outlive_its_fact() -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        node.write(asserted(relation="rel:knows", value=REF))
        link = node.directory.projections_path
        node.close()
        copy = Path(folder) / "copy.db"
        shutil.copy(link.resolve(), copy)
        db = open_writer(copy)
        db.execute("DELETE FROM fact_rows WHERE value_type='ref'")
        assert query(db, "SELECT count(*) FROM entity_edges") == [(0,)]
        with pytest.raises(apsw.ConstraintError):
            db.execute(
                "INSERT INTO entity_edges (id, subject, relation, object, scope, confidence,"
                " created_at, from_position, source, warrant)"
                " VALUES ('x','a','r','b','local',1.0,0,1,'s',0)"
            )
        db.close()
