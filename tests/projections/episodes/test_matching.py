"""Matchers: which one decides, and what its templates give."""

from typing import Any

import pytest

from engramlog.projections.episodes.classifying import CurrentFacts, emit
from engramlog.projections.episodes.delta import AddDelta, DeleteDelta, NoopDelta, UpdateDelta
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.matching import filled, first_match, in_order, match_count
from engramlog.projections.episodes.rule import RuleError, parse_rule


def episode(content: str = "hello", **metadata: Any) -> Episode:
    return Episode(
        id="ep-1", key="k", user="Ann", session="S", agent="rag", content=content, at_us=5,
        metadata=metadata, actor="agent:rag",
    )  # fmt: skip


def rule(*matchers: dict[str, Any]) -> Any:
    return parse_rule({"id": "r", "cadence": {"every": 1}, "matchers": list(matchers)})


def matcher(id: str, *when: tuple[str, str, Any], salience: int = 0, **then: Any) -> dict[str, Any]:
    return {
        "id": id,
        "salience": salience,
        "when": [{"field": field, "op": op, "value": value} for field, op, value in when],
        "then": {"emit": "noop", **then},
    }


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (("user", "eq", "Ann"), True),
        (("user", "ne", "Ann"), False),
        (("agent", "in", ["rag", "x"]), True),
        (("metadata.mood", "gte", 3), True),
        (("metadata.mood", "lte", 3), False),
        (("metadata.flag", "gte", 0), False),
        (("metadata.none", "exists", False), True),
        (("content", "regex", r"hel+o"), True),
        (("metadata.mood", "regex", "4"), False),
        (("salience", "gte", 0.5), True),
        (("subject", "eq", "self"), True),
    ],
)
def test_each_operator_of_a_condition_decides(condition: tuple[str, str, Any], holds: bool) -> None:
    tried = episode(mood=4, flag=True, subject="self")
    found = first_match(rule(matcher("m", condition)).matchers, tried, 0.7)
    assert (found is not None) == holds


def test_the_highest_salience_is_asked_first_then_the_lesser_id() -> None:
    made = rule(matcher("b"), matcher("a"), matcher("z", salience=5), matcher("y", salience=-1))
    assert [each.id for each in in_order(made.matchers)] == ["z", "a", "b", "y"]
    found = first_match(in_order(made.matchers), episode())
    assert found is not None
    assert found.matcher.id == "z"
    assert match_count(made.matchers, episode()) == 4


def test_templates_fill_in_fields_metadata_and_groups() -> None:
    text = "{user} said {content} {metadata.n} {group.word} {nothing} {metadata.none}"
    assert filled(text, episode(n=3), {"word": "W"}) == "Ann said hello 3 W  "


def test_matchers_emit_every_kind() -> None:
    fact = {"object": "{content}", "predicate": "said"}
    made = rule(
        matcher("a", ("content", "eq", "add"), emit="add", fact=fact, confidence=0.5),
        matcher("b", ("content", "eq", "update"), emit="update", fact=fact, replaces="{object}"),
        matcher("c", ("content", "eq", "delete"), emit="delete", replaces="f-{metadata.n}"),
    )
    said = [episode("add"), episode("update", object="f-0"), episode("delete", n=1), episode("?")]
    add, update, delete, noop = [
        each.delta for each in emit(made, said, CurrentFacts({})).proposals
    ]
    assert isinstance(add, AddDelta)
    assert (add.fact_payload, add.confidence) == (
        {"object": "add", "predicate": "said", "id": "ep-1"}, 0.5,
    )  # fmt: skip
    assert isinstance(update, UpdateDelta)
    assert update.replaces == ["f-0"]
    assert isinstance(delete, DeleteDelta)
    assert delete.replaces == ["f-1"]
    assert isinstance(noop, NoopDelta)


def test_a_replacement_that_names_nothing_sets_the_episode_aside() -> None:
    made = rule(matcher("c", emit="delete", replaces="{metadata.none}"))
    emitted = emit(made, [episode()], CurrentFacts({}))
    assert [reason for _, reason in emitted.set_aside] == [
        "replaces must be non-empty for update/delete"
    ]


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (matcher("m", ("nowhere", "eq", 1)), "$.matchers[0].when[0].field"),
        (matcher("m", ("content", "in", "x")), "$.matchers[0].when[0].value"),
        (matcher("m", ("content", "gte", "x")), "$.matchers[0].when[0].value"),
        (matcher("m", ("content", "regex", "(")), "$.matchers[0].when[0].value"),
        (matcher("m", ("content", "regex", "a{99999999999}")), "$.matchers[0].when[0].value"),
        (matcher("m", ("content", "exists", 1)), "$.matchers[0].when[0].value"),
        (matcher("m", emit="add", fact={"subject": "x"}), "$.matchers[0].then.fact"),
        (matcher("m", emit="add", fact={"colour": "x"}), "$.matchers[0].then.fact"),
        (matcher("m", emit="delete"), "$.matchers[0].then.replaces"),
        (matcher("m", emit="add", fact={"object": "x"}, confidence=0),
         "$.matchers[0].then.confidence"),
    ],
)  # fmt: skip
def test_an_invalid_rule_is_refused_at_its_path(broken: dict[str, Any], path: str) -> None:
    with pytest.raises(RuleError) as caught:
        rule(broken)
    assert caught.value.path == path
