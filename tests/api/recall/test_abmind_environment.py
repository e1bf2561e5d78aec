"""abmind's variables as numbers of a profile: each in its place, and unusable ones."""

from typing import Any

import pytest

from engramlog.api.cli.questions.abmind_environment import VARIABLES, tuned, whole_number
from engramlog.projections.recall.profile import built_in_document, parse_profile

GIVEN = {
    "EMBEDDING_SIMILARITY_THRESHOLD": ("0.4", 0.4),
    "RECALL_DECAY_DAYS": ("100", 100),
    "RECALL_DECAY_FLOOR": ("0.2", 0.2),
    "RECALL_EMOTION_BOOST": ("0.15", 0.15),
    "RECALL_CONTEXT_HOUR_BOOST": ("0.05", 0.05),
    "RECALL_CONTEXT_DOW_BOOST": ("0.01", 0.01),
    "RECALL_CONTEXT_TOPIC_BOOST": ("0.04", 0.04),
    "RECALL_SE_WAIT_MS": ("400", 400),
    "RECALL_SS_SCAN_ROWS": ("700", 700),
}


def part(document: dict[str, Any], kind: str, name: str) -> Any:
    profile = parse_profile(document)
    parts = profile.stages if kind == "stages" else profile.factors
    return next(each for each in parts if each.name == name)


def numbers(document: dict[str, Any]) -> dict[str, float]:
    fuzzy = part(document, "stages", "fuzzy").parameters.product
    semantic = part(document, "stages", "semantic")
    context = part(document, "factors", "context").parameters
    return {
        "EMBEDDING_SIMILARITY_THRESHOLD": semantic.parameters.threshold,
        "RECALL_DECAY_DAYS": fuzzy.decay_days,
        "RECALL_DECAY_FLOOR": fuzzy.decay_floor,
        "RECALL_EMOTION_BOOST": fuzzy.emotion_recency,
        "RECALL_CONTEXT_HOUR_BOOST": context.hour,
        "RECALL_CONTEXT_DOW_BOOST": context.day,
        "RECALL_CONTEXT_TOPIC_BOOST": context.topic,
        "RECALL_SE_WAIT_MS": semantic.deadline_ms,
        "RECALL_SS_SCAN_ROWS": part(document, "stages", "simhash").parameters.rows,
    }


def test_every_variable_has_its_place() -> None:
    assert GIVEN.keys() == VARIABLES.keys()
    environ = {name: text for name, (text, _) in GIVEN.items()}
    document, warnings = tuned(built_in_document("abmind-head"), environ)
    assert warnings == []
    assert numbers(document) == {name: number for name, (_, number) in GIVEN.items()}


def test_the_defaults_are_abminds() -> None:
    assert numbers(built_in_document("abmind-head")) == {
        "EMBEDDING_SIMILARITY_THRESHOLD": 0.5,
        "RECALL_DECAY_DAYS": 365,
        "RECALL_DECAY_FLOOR": 0.3,
        "RECALL_EMOTION_BOOST": 0.1,
        "RECALL_CONTEXT_HOUR_BOOST": 0.02,
        "RECALL_CONTEXT_DOW_BOOST": 0.015,
        "RECALL_CONTEXT_TOPIC_BOOST": 0.03,
        "RECALL_SE_WAIT_MS": 250,
        "RECALL_SS_SCAN_ROWS": 5000,
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("EMBEDDING_SIMILARITY_THRESHOLD", "1.5"),
        ("EMBEDDING_SIMILARITY_THRESHOLD", "half"),
        ("EMBEDDING_SIMILARITY_THRESHOLD", "nan"),
        ("RECALL_SE_WAIT_MS", "-5"),
        ("RECALL_SE_WAIT_MS", "2.5"),
        ("RECALL_SS_SCAN_ROWS", "many"),
        ("RECALL_CONTEXT_DOW_BOOST", "inf"),
    ],
)
def test_an_unusable_number_is_reported_and_the_default_stays(name: str, text: str) -> None:
    asked = built_in_document("abmind-head")
    document, warnings = tuned(asked, {name: text, "RECALL_CONTEXT_HOUR_BOOST": "0.05"})
    assert len(warnings) == 1
    assert name in warnings[0]
    assert text in warnings[0]
    expected = numbers(asked) | {"RECALL_CONTEXT_HOUR_BOOST": 0.05}
    assert numbers(document) == expected


def test_a_variable_of_a_part_that_the_profile_lacks_is_reported() -> None:
    document, warnings = tuned(built_in_document("default"), {"RECALL_SS_SCAN_ROWS": "700"})
    assert document == built_in_document("default")
    assert warnings == ["RECALL_SS_SCAN_ROWS has no effect: the profile has no simhash"]


@pytest.mark.parametrize("name", ["abmind", "abmind-head"])
@pytest.mark.parametrize(
    ("mode", "off"),
    [
        ("hybrid", set()),
        ("fts", {"semantic", "simhash"}),
        ("signature", {"fuzzy", "semantic"}),
    ],
)
def test_the_search_mode_turns_stages_off(name: str, mode: str, off: set[str]) -> None:
    document, warnings = tuned(
        built_in_document(name), {"MEMORY_SEARCH_MODE": mode, "SIGNATURE_BITS": "256"}
    )
    assert warnings == []
    stages = parse_profile(document).stages
    assert {stage.name for stage in stages if stage.weight == 0} == off
    assert len(stages) == 5


def test_a_mode_or_a_size_that_does_not_exist_is_reported() -> None:
    asked = built_in_document("abmind")
    environ = {"MEMORY_SEARCH_MODE": "vector", "SIGNATURE_BITS": "128"}
    assert tuned(asked, environ) == (
        asked,
        [
            "MEMORY_SEARCH_MODE is 'vector', not one of hybrid, fts, signature: the profile's "
            "stages stay",
            "SIGNATURE_BITS is '128': signatures have 256 bits",
        ],
    )
    lexical = built_in_document("default")
    assert tuned(lexical, {"MEMORY_SEARCH_MODE": "fts"}) == (
        lexical,
        ["MEMORY_SEARCH_MODE has no effect: the profile has no simhash"],
    )


@pytest.mark.parametrize(
    ("given", "expected", "warned"),
    [
        (None, 5, False),
        ("", 5, False),
        ("7", 7, False),
        ("0", 5, True),
        ("51", 5, True),
        ("2.5", 5, True),
        ("x", 5, True),
    ],
)
def test_an_unusable_limit_is_reported(given: str | None, expected: int, warned: bool) -> None:
    environ = {} if given is None else {"LIMIT": given}
    number, warning = whole_number(environ, "LIMIT", 5, 50)
    assert (number, warning is not None) == (expected, warned)
