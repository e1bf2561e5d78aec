"""Content rules: each by itself, and that HTTP accepts nothing that breaks one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engramlog.api.schemas.values import NAME_LENGTH_MAX, FactValue
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DeltaApplied,
    EpisodeRecorded,
    FactAsserted,
    FactAttributes,
    FactAttributesSet,
    FactErased,
    FactRetracted,
    Parent,
    Payload,
    SummaryRecorded,
    Value,
)
from engramlog.projections.normalization import URI_LENGTH_MAX
from engramlog.projections.writing import content_rules as rules
from engramlog.projections.writing.content_rules import content_fault
from tests.worlds.processes import ROOT

FACT = FactAsserted(
    entity="user:a", relation="memory:role", value=Value("string", "A"), source="agent:t",
    scope="company",
)  # fmt: skip
EPISODE = EpisodeRecorded(
    user="ann", session="s", agent="x", content="hello", at_us=1, scope="company"
)
SUMMARY = SummaryRecorded(
    name="weekly/weekly_2026-W25.md", tier="weekly", period_start="2026-06-15", owner="user:a",
    scope="company",
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": 1.5},
        {"confidence": float("nan")},
        {"valid_from": "yesterday"},
        {"valid_until": "2026-01-01"},
        {"relation": ""},
        {"relation": "tag:\x07bell"},
        {"relation": "x" * 2049},
        {"entity": "  User:A "},
        {"source": "agent:\x00"},
        {"value": Value("number", "many")},
        {"value": Value("number", "1_000.0")},
        {"value": Value("number", "1e400")},
        {"value": Value("number", "42")},
        {"value": Value("boolean", "maybe")},
        {"value": Value("datetime", "not a date")},
        {"value": Value("null", "x")},
        {"value": Value("ref", "no uri")},
        {"value": Value("string", "a\x00b")},
        {"value": Value("text", "x" * (rules.VALUE_BYTES_MAX + 1))},
        {"derived_from": [Parent("beef")]},
        {"derived_from": [Parent("0" * 64)] * 1001},
        {"id": "x" * 513},
        {"attributes": FactAttributes(classification=300)},
        {"attributes": FactAttributes(original="a\x00")},
    ],
)
def test_a_fact_that_no_write_could_have_made_breaks_a_rule(change: dict[str, Any]) -> None:
    assert content_fault(FACT) is None
    assert content_fault(msgspec.structs.replace(FACT, **change)) is not None


@pytest.mark.parametrize(
    "payload",
    [
        FactRetracted(fact_ids=["f"], reason="x" * 4097),
        FactRetracted(fact_ids=["f"], reason="a\x00"),
        FactRetracted(fact_ids=["f"] * 10_001),
        ConflictResolved(conflict_id="c", winner_id="\x07", loser_ids=[], resolution_fact_id="r"),
        FactErased(erasure_id="e", events=["no id"]),
        FactAttributesSet(fact_id="f", attributes=FactAttributes(topic="x" * 65)),
        msgspec.structs.replace(EPISODE, content=""),
        msgspec.structs.replace(EPISODE, content="a\x00"),
        msgspec.structs.replace(EPISODE, user="a\nb"),
        msgspec.structs.replace(EPISODE, metadata={"a": ["b", {"c": "\x00"}]}),
        DeltaApplied(scope="company", deltas=[], run_id="\x00"),
        msgspec.structs.replace(SUMMARY, tier="daily"),
        msgspec.structs.replace(SUMMARY, period_start="2026-06-16"),
        msgspec.structs.replace(SUMMARY, name="weekly/weekly_probe.md"),
        msgspec.structs.replace(SUMMARY, owner=" User:A"),
        msgspec.structs.replace(SUMMARY, owner=""),
    ],
)
def test_other_events_are_held_to_their_rules(payload: Payload) -> None:
    assert content_fault(EPISODE) is None
    assert content_fault(SUMMARY) is None
    assert content_fault(payload) is not None


_JSON = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
_TYPES = st.sampled_from(["string", "text", "number", "boolean", "datetime", "ref", "null"])


@given(kind=_TYPES, v=_JSON | st.sampled_from(["2026-01-31T12:00:00Z", "user:x", 1e300, 0.1, -0.0]))
def test_every_value_that_http_takes_breaks_no_rule(kind: str, v: Any) -> None:
    if isinstance(v, str) and "\x00" in v:
        return  # no body can contain it
    try:
        value = FactValue.model_validate({"type": kind, "v": v}).stored()
    except ValidationError:
        return
    assert content_fault(msgspec.structs.replace(FACT, value=value)) is None


def test_the_format_lists_the_limits() -> None:
    assert NAME_LENGTH_MAX == URI_LENGTH_MAX
    page = (ROOT / "eventlog" / "FORMAT.md").read_text()
    assert f"Rules of version {rules.CONTENT_RULES} " in page
    for words in (
        f"at most {rules.VALUE_BYTES_MAX} bytes",
        f"at most {rules.ID_LENGTH_MAX} printable",
        f"at most {rules.TEXT_LENGTH_MAX} characters",
        f"at most {rules.PARENTS_MAX} entries",
        f"at most {rules.NAMED_MAX} facts",
    ):
        assert words in page, words
