"""Data directories and exports of earlier versions keep their meaning."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.archive.archive import FOLDER
from engramlog.projections.embedding.settings import EmbeddingSettings
from tests.system.earlier_versions import (
    RARE,
    SQL_PATH,
    VERSIONS,
    answer,
    expected_of,
    lived,
    observed,
    serve,
    unpack,
    unwritten,
)
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.processes import engramlog

SAID = ("entity", "relation", "value", "source", "scope", "confidence", "recorded_at")


@pytest.fixture(params=sorted(VERSIONS.glob("*/")), ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    """A version's folder."""
    return request.param


@pytest.fixture
def expected(folder: Path) -> dict[str, Any]:
    return expected_of(folder)


@pytest.fixture
def data(folder: Path, tmp_path: Path) -> Path:
    """Its data directory, as closed."""
    return unpack(folder, tmp_path / "node")


@pytest.fixture
def live(data: Path, expected: dict[str, Any]) -> Iterator[LiveNode]:
    """Its node, at the time of its closing."""
    node = serve(data, expected["now_us"])
    yield node
    node.close()


def test_this_version_can_write_its_own(tmp_path: Path) -> None:
    past = lived(tmp_path / "node")
    try:
        assert unwritten(past.node) <= RARE | {"embedding_model_pinned"}
    finally:
        past.close()


def test_the_log_verifies(data: Path, expected: dict[str, Any]) -> None:
    done = engramlog("replay", "verify", "--data", data)
    assert done.returncode == 0, done.stderr
    assert f"{expected['events']} events" in done.stdout


def test_the_node_continues_with_its_tables(live: LiveNode, expected: dict[str, Any]) -> None:
    found = observed(live, [])
    for name in ("events", "heads", "live_facts"):
        assert found[name] == expected[name], name
    assert same_tables(found, expected) > 0
    holds = live.call("GET", "/v1/legal-holds", key=CONTROL_TOKEN).json()["holds"]
    assert [each["reason"] for each in holds] == [""]
    if versions(found) == versions(expected):
        assert (found["local"], found["shared"]) == (expected["local"], expected["shared"])


def test_a_rebuild_gives_the_tables_in_use(live: LiveNode, expected: dict[str, Any]) -> None:
    in_use = live.node.reader.digests()
    snapshots, broken = live.node.snapshots.all()
    assert (len(snapshots), broken) == (1, [])
    from_snapshot = live.node.rebuild()
    if versions(observed(live, [])) == versions(expected):
        assert from_snapshot.snapshot == snapshots[0].position
        assert from_snapshot.passed_over == []
    assert live.node.rebuild(from_scratch=True).compared
    assert live.node.reader.digests() == in_use
    same_tables(observed(live, []), expected)


def test_its_answers_hold_now_and_of_the_past(live: LiveNode, expected: dict[str, Any]) -> None:
    for question in expected["answers"]:
        found = answer(live, question)
        asked = f"{question['path']} {question.get('params') or question.get('body')}"
        assert found["status"] == question["status"] == 200, asked
        if question["path"] == "/v1/recall":
            assert set(found["answer"]) == recalled_now(live, question), asked
        else:
            assert holds(question["answer"], found["answer"]), asked
    assert live.node.log.head().position == expected["events"]


def test_the_archive_answers_sql(live: LiveNode, data: Path, expected: dict[str, Any]) -> None:
    sealed = {path.name: path.read_bytes() for path in (data / FOLDER).glob("*.parquet")}
    assert sealed
    asked = [each for each in expected["answers"] if each["path"] == SQL_PATH]
    assert asked
    for question in asked:
        assert answer(live, question)["answer"] == question["answer"]
    assert {path.name: path.read_bytes() for path in (data / FOLDER).glob("*.parquet")} == sealed


def test_the_whole_export_can_be_imported(folder: Path, tmp_path: Path) -> None:
    export, copy, receipts = folder / "export.jsonl.gz", tmp_path / "copy", tmp_path / "receipts"
    options = ("--data", copy, "--clock-from-file", "--receipts", receipts, "--quiet")
    done = engramlog("import", export, *options)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in receipts.read_text().splitlines()]
    given = lines(gzip.decompress(export.read_bytes()))
    assert len(told) == len(given)
    assert not [each for each in told if each["status"] == "refused"]
    again = engramlog("export", "--data", copy, "--quiet")
    assert again.returncode == 0, again.stderr
    assert facts(lines(again.stdout.encode())) == facts(given)


def test_its_vectors_are_reused(data: Path, expected: dict[str, Any]) -> None:
    vectors = {path.name for path in data.glob("vectors-*.db")}
    assert vectors
    clock = FixedClock(expected["now_us"])
    node = Node.open(data, clock=clock, embedding=EmbeddingSettings(provider="minilm"))
    try:
        assert node.embeddings is not None
        assert node.embeddings.space == node.pinned_space() is not None
        assert node.log.head().position == expected["events"]
        current = node.embeddings._current
        assert current is not None
        assert current.worker.wait(expected["events"], 60)
        assert current.worker.status().vectors
    finally:
        node.close()
    assert {path.name for path in data.glob("vectors-*.db")} == vectors


def recalled_now(live: LiveNode, question: dict[str, Any]) -> set[str]:
    """The facts that a recall returned, without those that a resolution had set aside: this version
    omits them. The ranking is this version's."""
    view = live.node.reader.pin()
    at = int(question["body"].get("as_of", f"position:{view.position}").removeprefix("position:"))
    slots = {fact: view.slot_of(fact) for fact in question["answer"]}
    return {fact for fact, slot in slots.items() if slot is None or view.set_aside[slot] > at}


def versions(state: dict[str, Any]) -> dict[str, int]:
    """The version of every projector."""
    return {name: each["version"] for name, each in state["projectors"].items()}


def same_tables(found: dict[str, Any], expected: dict[str, Any]) -> int:
    """Compare the tables whose projector is still the same; returns how many."""
    compared = 0
    for name, before in expected["projectors"].items():
        now = found["projectors"].get(name)
        if now is not None and now["version"] == before["version"]:
            assert now["tables"] == before["tables"], name
            compared += len(before["tables"])
    return compared


def holds(before: Any, now: Any) -> bool:
    """Whether an answer contains all that the earlier one did; it may contain more. Version 0.1.0
    named causes that the reader may not know of."""
    if isinstance(before, dict):
        known = isinstance(now, dict) and before.keys() <= now.keys()
        return known and all(
            holds(each, now[name]) or (name == "causation_id" and now[name] is None)
            for name, each in before.items()
        )
    if isinstance(before, list):
        same = isinstance(now, list) and len(before) == len(now)
        return same and all(map(holds, before, now))
    return before == now


def lines(export: bytes) -> list[dict[str, Any]]:
    """The lines of an export."""
    return [json.loads(line) for line in export.splitlines()]


def facts(export: list[dict[str, Any]]) -> Counter[str]:
    """Assertions with source and time, without ids."""
    asserted = [line for line in export if line.get("op", "assert") == "assert"]
    return Counter(json.dumps([line.get(name) for name in SAID]) for line in asserted)
