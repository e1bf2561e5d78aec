"""Dated events: ``valid_at`` gives the facts that were valid on a day. One question in three is
asked; ``benchmarks icews`` asks all."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.icews import DATA, SET_VALUED, expected, probes, written
from tests.worlds.processes import NodeProcess, serving

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.exists(), reason=f"needs {DATA}"),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("icews") / "data"
    with serving(data, "--no-auth", env=SET_VALUED) as process:
        yield process


def test_every_probe_gets_the_answer_of_its_day(node: NodeProcess) -> None:
    asked = list(probes())[::3]
    assert len(asked) > 800
    keys = {(probe.query["entity"], probe.query["relation"]) for probe in asked}
    chance = random.Random(0)

    def wanted(fact: dict[str, Any]) -> bool:
        """All required facts, and some of the rest as noise."""
        return (fact["entity"], fact["relation"]) in keys or chance.random() < 0.1

    client = node.client()
    count = written(lambda items: client.post("/v1/facts/batch", items), wanted)
    assert 10_000 < count < 20_000
    wrong = [
        (probe, found)
        for probe in asked
        if (found := expected(client.get("/v1/facts", probe.query))) != probe.expected
    ]
    assert not wrong, f"{len(wrong)} wrong, first {wrong[0]}"


def test_the_files_are_where_the_readme_says() -> None:
    assert Path(DATA / "asof.jsonl").exists()
    assert json.loads((DATA / "asof.jsonl").read_text().splitlines()[0]).keys() >= {"s", "r", "t"}
