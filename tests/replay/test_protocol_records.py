"""Every input from a peer becomes a fact or a refusal, never an exception."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.codec import encode_payload, read_payload
from engramlog.eventlog.kinds import FactAsserted, RefusedFact
from engramlog.projections.cid import cid_of
from engramlog.projections.moment import parse_instant
from engramlog.replay.stigmem.pulling import page_command, reading, rewound
from engramlog.replay.stigmem.records import RecordBounds, hlc_of, name_of, taken

NODE = "stigmem:node:11111111-1111-4111-8111-111111111111"
BOUNDS = RecordBounds(NODE, frozenset({"company", "public"}), 1000)
GOOD: dict[str, Any] = {
    "id": "d581e43d-5038-47bd-98a7-4a982275564a",
    "entity": "stigmem://t/s/1",
    "relation": "memory:x",
    "value": {"type": "string", "v": "public", "interpret_as": "content"},
    "source": "stigmem://t/agent/a",
    "timestamp": "2026-11-20T20:03:49.299955+00:00",
    "hlc": "1795205029299.0",
    "confidence": 1.0,
    "scope": "public",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(json_values)
def test_any_input_is_refused_with_a_message(record: object) -> None:
    assert isinstance(taken(record, BOUNDS), RefusedFact)
    assert name_of(record) == name_of(record)


@given(st.sampled_from(sorted(GOOD)), json_values)
def test_a_record_with_one_field_replaced_is_a_fact_that_can_be_kept_or_refused(
    name: str, value: object
) -> None:
    outcome = taken({**GOOD, name: value}, BOUNDS)
    if isinstance(outcome, RefusedFact):
        return
    assert read_payload(encode_payload(outcome)) == outcome
    for text in (outcome.valid_from, outcome.valid_until):
        assert text is None or parse_instant(text)
    assert outcome.scope in BOUNDS.scopes
    assert outcome.cid == cid_of(outcome)


def test_the_recorded_fact_keeps_its_content_id_its_clock_and_its_node() -> None:
    """The record of wire 1.4."""
    fact = taken(
        {
            **GOOD,
            "entity": "stigmem://t/s/40c4c7-public",
            "cid": "sha256:62239ba03781d3bd3f9a82d2b7a538f5e076b92166c1bd22773149e2bbd49848",
        },
        BOUNDS,
    )
    assert isinstance(fact, FactAsserted)
    assert fact.foreign is not None
    assert fact.foreign.node_id == NODE
    assert fact.foreign.hlc == 1795205029299_000
    assert fact.foreign.recorded_at == 1795205029299955
    assert fact.cid.endswith("d49848")


def test_a_peer_decides_neither_score_nor_trust() -> None:
    """Spec-07: the score is local. What a record says of its own rank changes no recorded fact."""
    claims = {
        "score": 99.0, "source_trust": 1.0, "effective_confidence": 1.0, "trust": 1.0,
        "access_count": 1000, "contradicted": False, "attested": True, "attested_key_id": "k",
        "attributes": {"trust": 3, "tier": "core", "relevance": 10}, "position": 1,
    }  # fmt: skip
    assert taken({**GOOD, **claims}, BOUNDS) == taken(GOOD, BOUNDS)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1795205029299.9", 1795205029299_009),
        ("1795205029299.10", 1795205029299_010),
        ("1795205029299.010", 1795205029299_010),
        ("1795205029299.1000", 1795205029300_000),
        ("yesterday", None),
        (None, None),
        (5, None),
    ],
)
def test_readings_are_numbers(text: object, number: int | None) -> None:
    assert hlc_of({"hlc": text}) == number


@given(st.integers(10**12, 10**13 - 1), st.integers(0, 999), st.integers(0, 999))
def test_the_sent_cursor_is_before_the_reached_one_as_number_and_as_text(
    wall_ms: int, reached: int, other: int
) -> None:
    cursor = rewound(f"{wall_ms}.{reached:03d}")
    assert cursor is not None
    for counter in (str(other), f"{other:03d}"):
        assert cursor < f"{wall_ms}.{counter}"
        assert reading(cursor) < reading(f"{wall_ms}.{counter}")
    assert rewound("") is None


def test_a_page_is_taken_in_the_order_of_its_readings_up_to_the_future() -> None:
    now_us = 1795205029299_000
    records = [
        {**GOOD, "id": "late", "hlc": "1795205029299.10"},
        {**GOOD, "id": "ahead", "hlc": "1795209999999.0"},
        {**GOOD, "id": "early", "hlc": "1795205029299.9"},
        {**GOOD, "id": "bad", "scope": "local"},
    ]
    command, held = page_command(
        records, "company", {}, lambda facts: [False] * len(facts), BOUNDS, "", now_us
    )
    assert command is not None
    assert [fact.foreign and fact.foreign.fact_id for fact in command.facts] == ["early", "late"]
    assert [item.fact_id for item in command.refused] == ["bad"]
    assert command.cursor == "1795205029299.010"
    assert held is not None
    assert "ahead" in held
