"""Every event has a subject in a few words, or names the facts that it touched."""

import json
from pathlib import Path

import pytest

from engramlog.eventlog.kinds import KINDS, SCHEMA_VERSIONS
from engramlog.projections.archive.rows import touched
from engramlog.projections.audit.event_subjects import OF_MANY_FACTS, about

EVENTS = Path(__file__).resolve().parents[2] / "fixtures" / "events"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_has_its_subject(kind: str) -> None:
    document = json.loads((EVENTS / f"{kind}.v{SCHEMA_VERSIONS[kind]}.json").read_text())
    payload = {name: each for name, each in document["payload"].items() if name != "kind"}
    words = about(kind, payload)
    facts = touched(kind, "some-event", payload)
    assert words or (facts and kind not in OF_MANY_FACTS), payload
    assert words is None or not words.startswith(("{", "[")), words


def test_a_recall_is_about_its_question() -> None:
    payload = {"query": "who keeps the tea?", "returned": [["f1", 0.5]]}
    assert about("recall_answered", payload) == "who keeps the tea?"
