"""Killed at random moments during many writes: acknowledged writes exist afterwards.

Each round writes from several connections, kills the node with SIGKILL shortly after a seeded
random number of acknowledgements, and starts it again on the same directory.
"""

import random
import time
from pathlib import Path
from typing import Any

from tests.worlds.dying_nodes import KILLED_AFTER_MAX, Writers, check_whole
from tests.worlds.processes import NodeProcess

ROUNDS = 15
"""The campaign kills as often as it is asked to."""
SEED = 20_261_120


def test_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    data = tmp_path / "data"
    acknowledged: dict[str, Any] = {}
    number = 0
    for _ in range(ROUNDS):
        node = NodeProcess(data, "--no-auth").wait_ready()
        check_whole(node, data, acknowledged, sample=rng.sample(sorted(acknowledged), min(
            len(acknowledged), 50)))  # fmt: skip
        writers = Writers(node, number)
        writers.until_acknowledged(rng.randint(1, KILLED_AFTER_MAX))
        time.sleep(rng.uniform(0.0, 0.02))
        node.kill()
        number = writers.join()
        acknowledged |= writers.acknowledged
    node = NodeProcess(data, "--no-auth").wait_ready()
    try:
        check_whole(node, data, acknowledged, sample=sorted(acknowledged))
    finally:
        assert node.stop() == 0
    assert len(acknowledged) > ROUNDS * 10
