"""Real history: every question about the past gets the answer that the revision itself had."""

import gzip
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.worlds.processes import MAPPINGS, SHARED_DATA, NodeProcess, engramlog, serving

CONGRESS = SHARED_DATA / "congress"
EVENTS = CONGRESS / "events.jsonl.gz"
SET_VALUED = {"STIGMEM_SET_VALUED_RELATIONS": "congress:*"}

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not EVENTS.exists(), reason=f"needs {EVENTS}"),
]


def told(subject: str) -> bool:
    """Whether to use a subject: one legislator in eight, and everything else alike; ``benchmarks
    congress`` uses all."""
    return crc32(subject.encode()) % 8 == 0


@pytest.fixture(scope="module")
def changes() -> dict[int, str]:
    """The used lines, by their number in the whole stream, which counts from 0."""
    with gzip.open(EVENTS, "rt") as lines:
        return {number: line for number, line in enumerate(lines) if told(json.loads(line)["s"])}


@pytest.fixture(scope="module")
def loaded(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[int, str]
) -> tuple[Path, dict[int, int], str]:
    """The data directory, the position of each line, and the import's summary."""
    data = tmp_path_factory.mktemp("congress") / "data"
    receipts, events = data.parent / "receipts.jsonl", data.parent / "events.jsonl.gz"
    with gzip.open(events, "wt", compresslevel=1) as file:
        file.writelines(changes.values())
    done = engramlog(
        "import", events, "--data", data, "--mapping", MAPPINGS / "congress.json",
        "--receipts", receipts, env=SET_VALUED,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, receipts.read_text().splitlines())
    return data, {row["line"]: row["position"] for row in rows}, done.stdout


@pytest.fixture(scope="module")
def node(loaded: tuple[Path, dict[int, int], str]) -> Iterator[NodeProcess]:
    with serving(loaded[0], "--no-auth", env=SET_VALUED) as process:
        yield process


def test_every_line_has_a_receipt(
    loaded: tuple[Path, dict[int, int], str], changes: dict[int, str]
) -> None:
    _, positions, summary = loaded
    done = Counter(json.loads(line)["op"] for line in changes.values())
    assert len(positions) == len(changes) > 12_000
    assert f"{done['assert']:,} asserted" in summary
    assert f"{done['retract']:,} retracted" in summary


def test_every_probe_gets_the_answer_as_of_its_position(
    loaded: tuple[Path, dict[int, int], str], changes: dict[int, str], node: NodeProcess
) -> None:
    _, positions, _ = loaded
    client = node.client()
    probes = [json.loads(line) for line in (CONGRESS / "probes.jsonl").read_text().splitlines()]
    probes = [probe for probe in probes if told(probe["s"])]
    numbers = list(changes)
    wrong: list[object] = []
    for probe in probes:
        # The last used line before event seq_after, counted from 1.
        line = bisect_left(numbers, probe["seq_after"])
        answer = client.get(
            "/v1/facts",
            {
                "entity": f"stigmem://congress.example/{probe['s']}",
                "relation": f"congress:{probe['r']}",
                "as_of": f"position:{positions[line]}",
                "include_expired": True,
                "limit": 500,
            },
        )
        assert answer["cursor"] is None
        found = sorted({fact["value"]["v"] for fact in answer["facts"]})
        if found != sorted(probe["expected"]):
            wrong.append((probe, found))
    assert len(probes) > 450
    assert not wrong, f"{len(wrong)} wrong, first {wrong[0]}"
