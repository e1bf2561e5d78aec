"""Provenance as text: one rule per type, and no guessing."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from engramlog.projections.episodes.provenance_bundle import (
    BUNDLE_KEYS,
    ProvenanceError,
    as_label,
    bundle_of,
    check_slots,
    coerce,
)


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (False, "FALSE"),
        (7, 7),
        ("a text", "a text"),
        (Decimal("0.10"), "0.10"),
        (UUID("018bcfe5-6800-7000-8000-000000000001"), "018bcfe5680070008000000000000001"),
        (datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=5))), "2026-01-01T08:00:00Z"),
        (datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC), "2026-01-01T00:00:00.000005Z"),
        (PurePosixPath("/var/log"), "/var/log"),
        (Colour.RED, "Colour.RED"),
        ({"b": [1, "ü"], "a": None}, '{"a":null,"b":[1,"ü"]}'),
    ],
)
def test_each_type_has_its_text(value: Any, text: Any) -> None:
    assert coerce(value) == text


@pytest.mark.parametrize(
    "value", [0.5, None, datetime(2026, 1, 1), PurePosixPath("log"), object(), b"x", {1}]
)
def test_values_without_a_rule_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        coerce(value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("origin", "9lives"), ("source", "ryugraph:path"), ("run_id", "a\x00b"), ("step", "(("),
     ("colour", "red"), ("confidence", 0.5)],
)  # fmt: skip
def test_bundles_that_break_the_rules(key: str, value: Any) -> None:
    with pytest.raises(ProvenanceError) as caught:
        bundle_of({key: value})
    assert caught.value.field == key


def test_a_payload_cannot_bring_the_slots_itself() -> None:
    check_slots({"object": "tea"})
    for key in BUNDLE_KEYS:
        with pytest.raises(ProvenanceError):
            check_slots({f"_{key}": "forged"})


@pytest.mark.parametrize("text", ["ryugraph:path", "9 lives", "", "ü", "fine-name_1"])
def test_any_text_makes_a_label(text: str) -> None:
    assert bundle_of({"source": as_label(text)})
    assert as_label("fine-name_1") == "fine-name_1"
