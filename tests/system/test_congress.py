"""Real history: every question about the past is answered as the revision itself had it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.processes import MAPPINGS, SHARED_DATA, NodeProcess, engramlog, serving

CONGRESS = SHARED_DATA / "congress"
EVENTS = CONGRESS / "events.jsonl.gz"
SET_VALUED = {"STIGMEM_SET_VALUED_RELATIONS": "congress:*"}

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not EVENTS.exists(), reason=f"needs {EVENTS}"),
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, int], str]:
    """The data directory, the position of each line, and the import's summary."""
    data = tmp_path_factory.mktemp("congress") / "data"
    receipts = data.parent / "receipts.jsonl"
    done = engramlog(
        "import", EVENTS, "--data", data, "--mapping", MAPPINGS / "congress.json",
        "--receipts", receipts, env=SET_VALUED,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, receipts.read_text().splitlines())
    return data, {row["line"]: row["position"] for row in rows}, done.stdout


@pytest.fixture(scope="module")
def node(loaded: tuple[Path, dict[int, int], str]) -> Iterator[NodeProcess]:
    with serving(loaded[0], "--no-auth", env=SET_VALUED) as process:
        yield process


def test_every_line_has_a_receipt(loaded: tuple[Path, dict[int, int], str]) -> None:
    _, positions, summary = loaded
    assert len(positions) == 120_351
    assert "73,108 asserted" in summary
    assert "47,243 retracted" in summary


def test_every_probe_is_answered_as_of_its_position(
    loaded: tuple[Path, dict[int, int], str], node: NodeProcess
) -> None:
    _, positions, _ = loaded
    client = node.client()
    probes = [json.loads(line) for line in (CONGRESS / "probes.jsonl").read_text().splitlines()]
    wrong: list[object] = []
    for probe in probes:
        # seq counts from 0, lines from 1: line seq_after is event seq_after - 1
        answer = client.get(
            "/v1/facts",
            {
                "entity": f"stigmem://congress.example/{probe['s']}",
                "relation": f"congress:{probe['r']}",
                "as_of": f"position:{positions[probe['seq_after']]}",
                "include_expired": True,
                "limit": 500,
            },
        )
        assert answer["cursor"] is None
        found = sorted({fact["value"]["v"] for fact in answer["facts"]})
        if found != sorted(probe["expected"]):
            wrong.append((probe, found))
    assert len(probes) == 4_049
    assert not wrong, f"{len(wrong)} wrong, first {wrong[0]}"
