"""A refused value is answered with the allowed ones, at any place of a document."""

from typing import Literal

import msgspec
import pytest

from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.line_kinds import convert_line
from engramlog.projections.allowed_values import with_choices
from engramlog.projections.episodes.rule import RuleError, parse_rule
from engramlog.projections.recall.profile import ProfileError, parse_profile

MATCHER = {"id": "m", "when": [{"field": "content", "op": "like"}], "then": {"emit": "noop"}}


def test_a_rule_names_the_operators() -> None:
    with pytest.raises(RuleError) as fault:
        parse_rule({"id": "r", "cadence": {"every": 1}, "matchers": [MATCHER]})
    assert fault.value.reason == ("must be one of eq, exists, gte, in, lte, ne, regex, not 'like'")


def test_a_profile_names_the_modes() -> None:
    document = {
        "name": "p",
        "description": "d",
        "stages": [{"name": "lexical", "weight": 1}],
        "fusion": {"name": "weighted_sum"},
        "factors": [{"name": "recency", "mode": "divide"}],
    }
    with pytest.raises(ProfileError) as fault:
        parse_profile(document)
    assert "must be one of add, boost, floor, mul, not 'divide'" in str(fault.value)


@pytest.mark.parametrize(
    ("line", "field", "allowed"),
    [
        ({"op": "member", "garden": "g", "entity_uri": "user:a", "role": "boss"}, "role",
         ("admin", "quarantine:moderator", "reader", "writer")),
        ({"op": "review", "target": "k", "decision": "maybe"}, "decision", ("keep", "release")),
        ({"op": "garden", "slug": "g", "scope": "world"}, "scope",
         ("company", "local", "public", "team")),
    ],
)  # fmt: skip
def test_a_line_names_the_values(
    line: dict[str, str], field: str, allowed: tuple[str, ...]
) -> None:
    with pytest.raises(LineError) as fault:
        convert_line(line)
    assert fault.value.field == field
    assert fault.value.message == f"must be one of {', '.join(allowed)}, not {line[field]!r}"


def test_other_faults_stay() -> None:
    assert with_choices("Expected `int`, got `str`", int, "$") == "Expected `int`, got `str`"


def test_members_of_lists_and_mappings_are_found() -> None:
    class Part(msgspec.Struct):
        sides: dict[str, list[Literal["left", "right"]]] | None = None

    with pytest.raises(msgspec.ValidationError) as fault:
        msgspec.convert([{"sides": {"a": ["up"]}}], list[Part])
    reason, _, path = str(fault.value).partition(" - at `")
    assert with_choices(reason, list[Part], path) == "must be one of left, right, not 'up'"
