import json
from typing import Any

import msgspec
import pytest

from engramlog.projections.recall.factors.factors import Recency
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import (
    ProfileError,
    UnknownProfile,
    built_in_document,
    load_profile,
    parse_profile,
    profile_names,
    read_profile,
)
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import World, reader, user


def document(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "name": "tried",
        "description": "",
        "stages": [{"name": "lexical", "weight": 1.0}],
    }
    return base | changes


def built_in(name: str, part: str) -> list[dict[str, Any]]:
    return built_in_document(name)[part]  # type: ignore[no-any-return]


def test_the_profiles_that_come_with_the_node_load() -> None:
    assert profile_names() == ["abmind", "abmind-head", "default", "stargraph", "stigmem"]
    for name in profile_names():
        assert load_profile(name).name == name


def test_the_stigmem_profile_is_the_seeds() -> None:
    profile = load_profile("stigmem")
    assert profile.depth == 1
    assert (profile.gate.min_confidence, profile.gate.low_trust) == (0.1, 0.2)
    assert (profile.diversity.lambda_mmr, profile.diversity.scale) == (0.7, "raw")
    assert profile.packing.skips_max == 0
    assert {each.mode for each in profile.factors} == {"mul"}
    assert profile.factors[0].parameters == Recency(rate_per_day=0.01, floor=0.0)
    assert {each.name: each.weight for each in profile.stages} == {
        "lexical": 0.3, "semantic": 0.5, "graph": 0.2,
    }  # fmt: skip
    numbers = {each["name"]: each.get("parameters") for each in built_in("stigmem", "factors")}
    assert numbers["derivation"] == {"per_hop": 0.9}
    assert numbers["contradiction"] == {"unresolved": 0.7}
    assert numbers["garden_tier"] == {"garden": 1.0, "quarantine": 0.2}
    assert numbers["source_trust"] == {"floor": 0.5}
    assert (profile.cards.fast_path, profile.cards.min_avg_confidence) == (True, 0.5)


def test_the_abmind_profile_is_its_pages() -> None:
    profile = load_profile("abmind")
    stages = {each["label"]: each for each in built_in("abmind", "stages")}
    assert list(stages) == ["Sf", "Se", "Ss", "S6", "S8"]
    assert (stages["Se"]["per_result"], stages["Se"]["parameters"]) == (3, {"threshold": 0.5})
    assert stages["Ss"]["parameters"] == {"version": 1, "threshold": 0.65, "cap": 5}
    assert stages["S6"]["parameters"]["score"] == 0.5
    assert stages["S8"]["parameters"]["edge_score"] == 0.6
    skipped = {label for label, each in stages.items() if "skipped_after" in each}
    assert skipped == {"Se", "Ss"}, "if Sf fills the limit"
    assert {each["name"]: each["parameters"] for each in built_in("abmind", "factors")} == {
        "confirm_penalty": {"stage": "fuzzy", "by": "semantic", "value": 0.5},
        "context": {"hour": 0.02, "day": 0.015, "topic": 0.03},
        "emotion_additive": {"per_point": 0.02},
        "spacing": {"weekly": 1.3, "daily": 1.15},
    }
    diversity = profile.diversity
    assert (diversity.lambda_mmr, diversity.similarity) == (0.7, "jaccard_words")


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(UnknownProfile, match="no recall profile 'other'"):
        load_profile("other")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": "Not A Name"}, "$.name"),
        ({"colour": "red"}, "$"),
        ({"stages": []}, "$.stages"),
        ({"stages": [{"name": "astral", "weight": 1}]}, "$.stages[0].name"),
        ({"stages": [{"name": "lexical", "weight": 1.5}]}, "$.stages[0].weight"),
        ({"stages": [{"name": "lexical", "weight": 1}] * 2}, "$.stages[1].name"),
        (
            {
                "stages": [
                    {"name": "lexical", "weight": 1, "skipped_after": {"stage": "fuzzy"}},
                    {"name": "fuzzy", "weight": 1},
                ]
            },
            "$.stages[0].skipped_after.stage",
        ),
        (
            {
                "stages": [
                    {"name": "lexical", "weight": 1, "label": "Sf"},
                    {"name": "fuzzy", "weight": 1, "label": "Sf"},
                ]
            },
            "$.stages[1].label",
        ),
        ({"fusion": {"name": "rrf", "fixed": ["summaries"]}}, "$.fusion.fixed[0]"),
        (
            {"factors": [{"name": "strong_floor", "parameters": {"stage": "fuzzy"}}]},
            "$.factors[0].parameters.stage",
        ),
        ({"enrichment": ["prose"]}, "$.enrichment[0]"),
        (
            {"stages": [{"name": "lexical", "weight": 1, "parameters": {"k1": "1"}}]},
            "$.stages[0].parameters.k1",
        ),
        (
            {"stages": [{"name": "lexical", "weight": 1, "parameters": {"k2": 1}}]},
            "$.stages[0].parameters",
        ),
        ({"factors": [{"name": "luck"}]}, "$.factors[0].name"),
        ({"factors": [{"name": "recency", "mode": "div"}]}, "$.factors[0].mode"),
        (
            {"factors": [{"name": "recency", "parameters": {"floor": 2}}]},
            "$.factors[0].parameters.floor",
        ),
        ({"factors": [{"name": "confidence"}] * 13}, "$.factors"),
        ({"fusion": {"name": "vote"}}, "$.fusion.name"),
        ({"fusion": {"normalisation": "z"}}, "$.fusion.normalisation"),
        ({"diversity": {"similarity": "taste"}}, "$.diversity.similarity"),
        ({"diversity": {"lambda": -1}}, "$.diversity.lambda"),
        ({"packing": {"estimator": "guess"}}, "$.packing.estimator"),
        ({"ties": ["newest", "nicest"]}, "$.ties[1]"),
        ({"depth": 4}, "$.depth"),
    ],
)
def test_a_wrong_document_is_refused_with_the_path_of_the_field(
    changes: dict[str, Any], path: str
) -> None:
    with pytest.raises(ProfileError) as refused:
        parse_profile(document(**changes))
    assert refused.value.path == path


def test_bytes_that_are_no_json_are_refused() -> None:
    with pytest.raises(ProfileError, match=r"^\$: "):
        parse_profile(b"{")


def test_bytes_and_documents_give_the_same_profile() -> None:
    assert parse_profile(json.dumps(document()).encode()) == parse_profile(document())


def test_a_profiles_name_changes_nothing() -> None:
    world = World()
    for word in ("atlas", "atlas ledger", "ledger"):
        world.fact(user("ann"), "memory:note", word)
    for name in profile_names():
        profile = load_profile(name)
        renamed = msgspec.structs.replace(profile, name="another")
        answers = [
            recall(
                world.view(), world.rows, RecallRequest(query="atlas"), each, reader(),
                world.moment(), stopwatch=lambda: 0.0,
            )
            for each in (profile, renamed)
        ]  # fmt: skip
        assert answers[0] == msgspec.structs.replace(answers[1], profile=name)


def test_what_an_earlier_release_knew_of_a_profile_is_left_out() -> None:
    told = document(
        stages=[
            {"name": "lexical", "weight": 1.0},
            {"name": "of_old", "weight": 1.0},
            {"name": "dates", "weight": 0.1, "parameters": {"gone": 10, "decay_days": 2}},
        ],
        factors=[
            {"name": "own_trust", "mode": "mul"},
            {"name": "recency", "mode": "mul", "parameters": {"gone": 0.2, "rate_per_day": 0.5}},
            {"name": "statement", "mode": "mul", "parameters": {"gone_terms": None}},
        ],
        ties=["confident"],
        diversity={"entity_centric": True, "lambda": 0.4},
    )
    known = document(
        stages=[
            {"name": "lexical", "weight": 1.0},
            {"name": "dates", "weight": 0.1, "parameters": {"decay_days": 2}},
        ],
        factors=[
            {"name": "recency", "mode": "mul", "parameters": {"rate_per_day": 0.5}},
            {"name": "statement", "mode": "mul"},
        ],
        ties=[],
        diversity={"lambda": 0.4},
    )
    before = json.dumps(told)
    assert read_profile(told) == parse_profile(known)
    assert json.dumps(told) == before
    with pytest.raises(ProfileError):
        parse_profile(told)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": 3}, "$.name"),
        ({"stages": 1}, "$.stages"),
        ({"stages": [{"name": "lexical"}]}, "$.stages[0]"),
        ({f"gone_{n}": n for n in range(200)}, "$"),
    ],
)
def test_what_is_no_profile_without_its_unknown_parts_is_refused(
    changes: dict[str, Any], path: str
) -> None:
    with pytest.raises(ProfileError) as refused:
        read_profile(document(**changes))
    assert refused.value.path == path
