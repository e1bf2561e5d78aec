"""``engramlog memory store``: abmind's output and manners, from a real process."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.processes import engramlog

STORED = '{"stored":true,"memoriesCount":1}\n'
NEEDED = ("--user-id", "ann", "--memory-type", "preference", "--emotion-score", "-2")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def store(data: Path, text: str, *more: str) -> Any:
    words = ("--translated", text, "--original", f"{text} eredeti")
    return engramlog("memory", "store", "--data", data, *NEEDED, *words, *more)


def whole(data: Path, text: str, *more: str) -> dict[str, Any]:
    return json.loads(store(data, text, "--json", *more).stdout)


def change(data: Path, *flags: str) -> Any:
    return engramlog("memory", "store", "--data", data, *flags)


def attributes(data: Path, fact: str) -> dict[str, Any]:
    listed = engramlog("facts", "--data", data, "--json", "--scope", "local")
    facts = json.loads(listed.stdout)["facts"]
    return next(each["attributes"] for each in facts if each["id"] == fact)


def test_a_stored_memory_has_abminds_output_and_is_recalled(data: Path) -> None:
    done = store(data, "Ann likes tea", "--topic", "drinks", "--tags", "tea,leaf")
    assert (done.returncode, done.stdout) == (0, STORED)
    made, warning = done.stderr.splitlines()
    assert made.startswith("engramlog: making the data directory")
    assert warning.startswith("engramlog: warning: no embeddings")
    again = store(data, "Ann likes tea")
    expected = {"stored": True, "memoriesCount": 0, "error": "duplicate (skipped)"}
    assert (again.returncode, json.loads(again.stdout)) == (0, expected)
    recall = engramlog("recall", "--translated", "leaf", "--data", data)
    (hit,) = json.loads(recall.stdout)
    assert (hit["content"], hit["topic"], hit["emotionScore"]) == ("Ann likes tea", "drinks", -2)
    assert (hit["memoryType"], hit["contentOriginal"]) == ("preference", "Ann likes tea eredeti")


def test_a_memory_that_is_not_stored_fails(data: Path) -> None:
    done = store(data, " ")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"stored": False, "error": "content is empty"}
    done = change(data, "--translated", "x", "--user-id", "ann")
    assert done.returncode == 1
    assert done.stderr == "engramlog: missing --original, --memory-type, --emotion-score\n"
    done = change(data, "--boost", "a", "--demote", "b")
    assert done.returncode == 1
    assert "one of --boost" in done.stderr


def test_memories_are_rated_reclassified_and_merged(data: Path) -> None:
    first = whole(data, "Ann likes tea")["id"]
    second = whole(data, "Ann drinks tea at work")["id"]
    for flags in (("--boost", first), ("--boost", first), ("--demote", second)):
        done = change(data, *flags)
        assert (done.returncode, done.stdout) == (0, STORED)
    assert attributes(data, first)["relevance"] == 20
    assert attributes(data, second)["relevance"] == -10
    done = change(data, "--reclassify", second, "--classification", "2")
    assert (done.returncode, done.stdout) == (0, STORED)
    done = change(data, "--merge", "--merge-ids", f"{first},{second}")
    assert (done.returncode, done.stdout) == (0, STORED)
    kept = attributes(data, second)
    assert (kept["relevance"], kept["classification"], kept["integrity"]) == (20, 2, 3)
    assert change(data, "--merge", "--merge-ids", first).returncode == 1


def test_a_change_ends_its_fact_unless_a_flag_keeps_it(data: Path) -> None:
    old = whole(data, "Ann drinks black tea", "--topic", "drinks")["id"]
    kept = whole(data, "Ann no longer drinks black tea", "--topic", "drinks", "--no-supersede")
    assert kept["superseded"] == []
    ended = whole(data, "Ann stopped black tea", "--topic", "drinks")
    assert set(ended["superseded"]) == {old, kept["id"]}
