"""Recall by keywords over HTTP: abmind's profiles, its filters, and refusals."""

from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode


def recall(live: LiveNode, *keywords: str, **body: Any) -> dict[str, Any]:
    asked = {"query": " ".join(keywords), "translated": list(keywords), "scope": "company"}
    answer = live.call("POST", "/v1/recall", json=asked | {"profile": "abmind"} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def said(answer: dict[str, Any]) -> list[str]:
    return [item["value"]["v"] for item in answer["results"]]


@pytest.fixture
def courteous(live: LiveNode) -> LiveNode:
    """Twelve facts with a courtesy, and one that is about something."""
    for n in range(12):
        live.state(entity=f"user:u{n}", type="text", v=f"thanks for note {n}")
    live.state(entity="user:ann", type="text", v="The migration runs every night")
    return live


def ambient(live: LiveNode, *keywords: str, **body: Any) -> dict[str, Any]:
    return recall(live, *keywords, **{"profile": "abmind-head", "intent": "ambient"} | body)


@pytest.fixture
def kittens(live: LiveNode) -> LiveNode:
    live.state(
        entity="user:ann", type="text", v="Ann adopted a kitten",
        attributes={"topic": "pets", "emotion_tags": ["joy"], "emotion_score": 5, "tier": "core"},
    )  # fmt: skip
    live.state(
        entity="user:bo", type="text", v="Bo found a cat",
        attributes={"topic": "work", "original": "Bo talált egy kiscicát", "keywords": "cica"},
    )  # fmt: skip
    live.state(entity="user:cy", type="text", v="Cy deployed the kitten service")
    return live


def test_each_stage_tells_its_hits_and_milliseconds(kittens: LiveNode) -> None:
    answer = recall(kittens, "kitten")
    assert answer["profile"] == "abmind"
    stages = {stage["label"]: stage for stage in answer["stages"]}
    assert list(stages) == ["Sf", "Se", "Ss", "S6", "S8"]
    assert (stages["Sf"]["status"], stages["Sf"]["hits"]) == ("completed", 2)
    assert stages["Sf"]["detail"] == "2 by porter"
    assert stages["Sf"]["milliseconds"] >= 0
    assert answer["short_circuit_after"] is None
    assert {item["found_by"] for item in answer["results"] if "kitten" in item["value"]["v"]} == {
        "Sf:porter"
    }


def test_two_hits_fill_a_limit_of_two(kittens: LiveNode) -> None:
    answer = recall(kittens, "kitten", limit=2)
    assert answer["short_circuit_after"] == "fuzzy"
    assert {s["label"] for s in answer["stages"] if s["status"] == "skipped"} == {"Se", "Ss"}


def test_emotion_and_tier_put_the_core_first(kittens: LiveNode) -> None:
    first = recall(kittens, "kitten", stages=["Sf"])["results"][0]
    assert first["value"]["v"] == "Ann adopted a kitten"
    assert first["metadata"]["topic"] == "pets"


def test_filters_keep_the_matching_facts(kittens: LiveNode) -> None:
    def found(**filters: Any) -> list[str]:
        return said(recall(kittens, "kitten", stages=["Sf"], **filters))

    assert found(topic="pets") == ["Ann adopted a kitten"]
    assert found(tier="general") == ["Cy deployed the kitten service"]
    assert found(emotion="positive") == ["Ann adopted a kitten"]
    assert found(emotion="negative") == []
    assert found(time_end=1_000_000_000_000) == []
    assert len(found(time_start="2020-01-01T00:00:00Z")) == 2


def test_expired_memories_are_found_on_request(live: LiveNode) -> None:
    over = {"valid_from": "2019-01-01T00:00:00Z", "valid_until": "2020-01-01T00:00:00Z"}
    live.state(entity="user:ann", type="text", v="Ann minds a kitten", **over)
    live.state(entity="user:ann", relation="memory:pet", type="text", v="Ann keeps a kitten")

    def found(**filters: Any) -> set[str]:
        return set(said(recall(live, "kitten", stages=["Sf"], **filters)))

    kept = {"Ann keeps a kitten"}
    assert found() == kept
    assert found(include_expired=True) == kept | {"Ann minds a kitten"}
    assert found() == kept


def test_the_classification_limit_applies_and_secrets_are_never_found(live: LiveNode) -> None:
    for text, classification in (("open kitten", 0), ("inner kitten", 1), ("secret kitten", 3)):
        live.state(type="text", v=text, scope="team", attributes={"classification": classification})
    kept = {"stages": ["Sf"], "scope": "team"}
    assert said(recall(live, "kitten", max_classification=0, **kept)) == ["open kitten"]
    every = said(recall(live, "kitten", max_classification=3, **kept))
    assert sorted(every) == ["inner kitten", "open kitten"]


def test_the_users_own_words_are_searched_without_accents(kittens: LiveNode) -> None:
    answer = recall(kittens, "zebra", original="kiscica", stages=["Sf"])
    assert [(i["value"]["v"], i["found_by"]) for i in answer["results"]] == [
        ("Bo found a cat", "Sf:trigram_orig")
    ]
    assert said(recall(kittens, "cica", stages=["Sf"])) == ["Bo found a cat"]


def test_the_context_is_the_askers_own(kittens: LiveNode) -> None:
    plain = recall(kittens, "kitten", stages=["Sf"])
    there = recall(kittens, "kitten", stages=["Sf"], current_context={"topic": "pets"})
    scores = [{i["entity"]: i["score"] for i in answer["results"]} for answer in (plain, there)]
    ann = next(entity for entity in scores[0] if entity.endswith("ann"))
    # Decay moves the raw score by less than a billionth between two questions.
    assert scores[1][ann] - scores[0][ann] == pytest.approx(0.03, abs=1e-6)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"stages": ["S9"]}, "stages"),
        ({"stages": []}, "stages"),
        ({"translated": []}, "translated"),
        ({"tier": "outer"}, "tier"),
        ({"time_start": 2, "time_end": 1}, "time_start"),
        ({"time_start": "yesterday"}, "time_start"),
        ({"current_context": {"hour": 24}}, "hour"),
        ({"current_context": {"weather": "rain"}}, "weather"),
        ({"current_context": {"utc_offset_minutes": 900}}, "utc_offset_minutes"),
    ],
)
def test_invalid_keyword_requests_are_refused_by_name(
    refusing: LiveNode, body: dict[str, Any], field: str
) -> None:
    asked = {"query": "kitten", "profile": "abmind", "scope": "company"} | body
    answer = refusing.call("POST", "/v1/recall", json=asked)
    assert answer.status_code == 422, answer.text
    assert field in answer.text


@pytest.mark.parametrize("profile", ["abmind", "abmind-head"])
def test_a_receipt_of_keywords_is_replayed(kittens: LiveNode, profile: str) -> None:
    answer = recall(kittens, "kitten", "cat", original="kiscica", profile=profile, topic="pets")
    receipt = answer["receipt_id"]
    replayed = kittens.call("POST", f"/v1/recall/receipts/{receipt}/replay")
    assert replayed.status_code == 200, replayed.text
    then = replayed.json()["then"]
    assert (then["faithful"], then["reasons"]) == (True, [])


def test_a_caller_sees_only_readable_facts(kittens: LiveNode) -> None:
    kittens.state(entity="user:di", type="text", v="Di hides a kitten", scope="team")
    assert "Di hides a kitten" not in said(recall(kittens, "kitten", limit=50))
    assert "Di hides a kitten" in said(recall(kittens, "kitten", limit=50, scope="team"))


def test_the_context_of_facts_is_as_clean_as_they_are(live: LiveNode) -> None:
    hidden = "kit\u200bten"  # a zero-width space
    for n in (1, 2):
        live.state(
            entity=f"user:u{n}", type="text", v=f"@ann saw {hidden} {n}",
            attributes={"topic": "pets", "original": hidden},
        )  # fmt: skip
    for item in recall(live, "ann", stages=["Sf"])["results"]:
        assert item["value"]["v"].startswith("@ann saw kitten")
        assert item["metadata"]["original"] == "kitten"
        assert "\u200b" not in item["timeline_context"]


def test_an_ambient_turn_of_common_words_skips_the_search(courteous: LiveNode) -> None:
    answer = ambient(courteous, "thanks")
    assert (answer["search_skipped"], answer["search_skipped_reason"]) == (
        True,
        "no-informative-terms",
    )
    assert (answer["results"], answer["facts"], answer["total_scored"]) == ([], [], 0)
    assert answer["dropped_terms"] == ["thanks"]
    assert answer["weak_evidence"] is True
    assert {stage["status"] for stage in answer["stages"]} == {"not-requested"}
    assert answer["hint"] is None  # the scope is not empty


def test_an_ambient_turn_drops_common_words(courteous: LiveNode) -> None:
    answer = ambient(courteous, "thanks", "migration")
    assert (answer["search_skipped"], answer["search_skipped_reason"]) == (False, None)
    assert answer["dropped_terms"] == ["thanks"]
    assert said(answer)[0] == "The migration runs every night"
    assert answer["weak_evidence"] is False
    for intent in ("explicit", None):
        more = {"intent": intent, "limit": 20}
        lexical = ambient(courteous, "thanks", "migration", stages=["Sf"], **more)
        assert lexical["weak_evidence"] is True  # no fact holds both
        whole = ambient(courteous, "thanks", "migration", **more)
        assert (whole["dropped_terms"], whole["search_skipped"]) == ([], False)
        assert len(whole["results"]) == 13
    assert len(ambient(courteous, "thanks", intent="explicit", limit=20)["results"]) == 12


@pytest.mark.parametrize("profile", ["abmind", "default", "stigmem"])
def test_a_profile_without_ambient_questions_says_so(courteous: LiveNode, profile: str) -> None:
    body = {"query": "thanks", "scope": "company", "profile": profile}
    refused = courteous.call("POST", "/v1/recall", json=body | {"intent": "ambient"})
    assert refused.status_code == 422, refused.text
    (item,) = refused.json()["detail"]
    assert item["loc"] == ["body", "intent"]
    assert profile in item["msg"]
    taken = courteous.call("POST", "/v1/recall", json=body | {"intent": "explicit"})
    assert taken.status_code == 200, taken.text
    assert taken.json()["weak_evidence"] is None


def test_the_ceiling_is_data_of_any_profile(courteous: LiveNode) -> None:
    shown = courteous.call("GET", "/v1/profiles/abmind-head").json()
    document = shown.get("document", shown)
    own = {**document, "name": "mine", "ambient": {"ceiling": 0.95, "facts_min": 2}}
    put = courteous.call("PUT", "/v1/profiles/mine", json=own, key=CONTROL_TOKEN)
    assert put.status_code in (200, 201), put.text
    assert ambient(courteous, "thanks", profile="mine")["search_skipped"] is False  # 12 of 13
    wrong = {**own, "ambient": {"ceiling": 0}}
    refused = courteous.call("PUT", "/v1/profiles/mine", json=wrong, key=CONTROL_TOKEN)
    assert refused.status_code == 422
    assert "ceiling" in refused.text


def test_common_words_are_those_of_the_moment(courteous: LiveNode) -> None:
    then = f"position:{courteous.node.log.head().position}"
    before = ambient(courteous, "thanks", as_of=then)
    for n in range(12):
        courteous.state(entity=f"user:v{n}", type="text", v=f"something else {n}")
    assert ambient(courteous, "thanks")["search_skipped"] is False  # 12 of 25
    after = ambient(courteous, "thanks", as_of=then)
    apart = {"recall_id", "receipt_id", "generated_at", "moment"}
    assert {k: v for k, v in before.items() if k not in apart} == {
        k: v for k, v in after.items() if k not in apart
    }
    assert after["search_skipped"] is True


def test_facts_of_other_scopes_make_nothing_common(courteous: LiveNode) -> None:
    assert ambient(courteous, "migration")["search_skipped"] is False
    for n in range(40):
        courteous.state(entity=f"user:t{n}", type="text", v=f"migration {n}", scope="team")
    assert ambient(courteous, "migration")["search_skipped"] is False
    assert ambient(courteous, "thanks")["search_skipped"] is True  # nor anything rare
    assert ambient(courteous, "migration", scope="*")["search_skipped"] is True


@pytest.mark.parametrize("keyword", ["thanks", "migration"])
def test_a_receipt_of_an_ambient_turn_is_replayed(courteous: LiveNode, keyword: str) -> None:
    receipt = ambient(courteous, keyword)["receipt_id"]
    replayed = courteous.call("POST", f"/v1/recall/receipts/{receipt}/replay")
    assert replayed.status_code == 200, replayed.text
    then = replayed.json()["then"]
    assert (then["faithful"], then["reasons"]) == (True, [])


def test_the_intent_is_one_of_two(live: LiveNode) -> None:
    body = {"query": "kitten", "profile": "abmind-head", "intent": "casual"}
    answer = live.call("POST", "/v1/recall", json=body)
    assert answer.status_code == 422
    assert "intent" in answer.text
