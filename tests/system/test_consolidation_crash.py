"""Killed while it consolidates: a pass is complete or absent, and continues afterwards."""

import itertools
import random
import time
from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import ConsolidationRan, DeltaApplied, FactAsserted
from tests.worlds.processes import NodeProcess

SEED = 20_261_121
ROUNDS = 6
EPISODES = 300
RULE = {"cadence": {"every": 7}}


def test_kills_leave_every_pass_whole(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    data = tmp_path / "data"
    sent = 0
    for _ in range(ROUNDS):
        node = NodeProcess(data, "--no-auth").wait_ready()
        client = node.client()
        if not sent:
            control = node.client(node.control.token)
            control.request("PUT", "/v1/consolidation/rules/classifier", body=RULE)
        batch = [
            {"user": f"u{n % 3}", "session": "s", "agent": "a", "content": f"{n}", "id": f"ep-{n}",
             "metadata": {"subject": "self", "predicate": f"p{n % 5}", "object": f"v{n}"}}
            for n in range(sent, sent + EPISODES)
        ]  # fmt: skip
        client.post("/v1/episodes/batch", {"episodes": batch})
        sent += EPISODES
        time.sleep(rng.uniform(0.0, 0.25))
        node.kill()
        _check(data)
    node = NodeProcess(data, "--no-auth").wait_ready()
    assert node.stop() == 0  # due rules run first
    _check(data)
    opened = Node.open(data)
    try:
        runs = [e.payload for e in opened.log.read(0, 100_000)
                if isinstance(e.payload, ConsolidationRan)]  # fmt: skip
        assert sum(run.episodes for run in runs) == sent // 7 * 7
        assert {run.episodes for run in runs} == {7}
        deltas = [delta for e in opened.log.read(0, 100_000)
                  if isinstance(e.payload, DeltaApplied) for delta in e.payload.deltas]  # fmt: skip
        assert [d.source_episode_ids for d in deltas] == [[f"ep-{n}"] for n in range(sent // 7 * 7)]
    finally:
        opened.close()


def _check(data: Path) -> None:
    """Each delta's fact is there, each run follows its deltas, and watermarks join up."""
    node = Node.open(data)
    try:
        events = node.log.read(0, 100_000)
        stated = {event.header.event_id for event in events
                  if isinstance(event.payload, FactAsserted)}  # fmt: skip
        named = [delta.fact_id for event in events if isinstance(event.payload, DeltaApplied)
                 for delta in event.payload.deltas]  # fmt: skip
        assert len(named) == len(stated)
        runs = [event.payload for event in events if isinstance(event.payload, ConsolidationRan)]
        assert sum(run.applied for run in runs) == len(named)
        for before, after in itertools.pairwise(runs):
            assert before.to_position == after.from_position
        with node.reader.pool.connection() as db:
            live = db.execute(
                "SELECT m.user, f.relation, count(*) FROM memory_facts m JOIN facts f"
                " ON f.id=m.fact_id WHERE f.confidence>0 GROUP BY 1, 2"
            ).fetchall()
        assert {row[2] for row in live} <= {1}
        assert not node.writer.store.halted
    finally:
        node.close()
