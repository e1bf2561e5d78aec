"""What goes with an entity: what names it in any spelling, no more, and only with authority."""

from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.memory_requests import put

ALICE = "user:alice-smith"


def asked(live: LiveNode, key: str = CONTROL_TOKEN, **body: Any) -> Any:
    return live.call("POST", "/v1/erasures", json={"wait": True, **body}, key=key)


def erase(live: LiveNode, **body: Any) -> list[str]:
    answer = asked(live, **body)
    assert answer.status_code == 202, answer.text
    return sorted(answer.json()["fact_ids"])


def hold(live: LiveNode, **body: Any) -> list[dict[str, Any]]:
    answer = live.call("PUT", "/v1/legal-holds", json=body, key=CONTROL_TOKEN)
    assert answer.status_code == 200, answer.text
    return answer.json()["holds"]


def episodes(live: LiveNode, user: str) -> list[str]:
    page = live.call("GET", "/v1/episodes", params={"user": user}, key=CONTROL_TOKEN).json()
    return [each["id"] for each in page["episodes"]]


def test_an_entity_goes_in_every_spelling_of_its_name(live: LiveNode) -> None:
    facts = [
        live.state(entity="User:Alice Smith", v="own"),
        live.state(relation="rel:knows", type="ref", v="User:Alice Smith"),
        live.state(relation="memory:note", v="met USER:Alice  Smith, at noon"),
        live.state(relation="memory:note", v="问user:alice-smith去"),
    ]
    put(live, user="User:Alice-Smith", id="by")
    put(live, user="user:bo", id="of", content="User:Alice Smith was there")
    put(live, user="user:bo", id="stays")
    assert erase(live, entity=ALICE) == sorted(fact["id"] for fact in facts)
    assert (episodes(live, "User:Alice-Smith"), episodes(live, "user:bo")) == ([], ["stays"])
    assert live.node.rebuild().compared


@pytest.mark.parametrize("other", ["user:ann-lee", "user:anna", "user:ann@lee", "super-user:ann"])
def test_longer_names_are_other_entities(live: LiveNode, other: str) -> None:
    own = live.state(entity="user:ann", v="own")
    live.state(relation="rel:knows", type="ref", v=other)
    live.state(relation="memory:note", v=f"met {other}")
    put(live, user=other, id="ep", content=f"{other} was there")
    assert erase(live, entity="user:ann") == [own["id"]]
    assert episodes(live, other) == ["ep"]


def test_the_end_of_a_name_and_an_alias_erase_no_mentions(live: LiveNode) -> None:
    live.state(entity="user:ann", v="own")
    ended = live.state(entity="org:x/ann", v="own")["id"]
    assert live.call("POST", f"/v1/facts/{ended}/retract", json={}).is_success
    live.state(entity="user:bo", v="met Ann and user:annie")
    alias = {"raw_uri": "user:annie", "canonical_uri": "user:ann"}
    assert live.call("POST", "/v1/aliases", json=alias, key=CONTROL_TOKEN).is_success
    for name, whole in (("Ann", "org:x/ann or user:ann"), ("user:annie", "user:ann")):
        refused = asked(live, entity=name)
        told = f"no facts are about {name.lower()}; give {whole}"
        said = {"code": "fact_not_found", "message": told}
        assert (refused.status_code, refused.json()["detail"]) == (404, said)
        assert asked(live, entity=name, mentions=False).status_code == 404


@pytest.mark.parametrize("own", ["ended", "user", "agent", "session"])
def test_a_short_name_of_its_own_is_erased(live: LiveNode, own: str) -> None:
    live.state(entity="drink:tea", v="hot")
    mention = live.state(entity="user:bo", v="likes tea")["id"]
    if own == "ended":
        fact = live.state(entity="tea", v="a plant")["id"]
        assert live.call("POST", f"/v1/facts/{fact}/retract", json={}).is_success
    else:
        put(live, **{"user": "user:bo", own: "Tea"})
    assert mention in erase(live, entity="tea")


def test_receipts_go_whose_question_names_the_entity(live: LiveNode) -> None:
    live.state(entity=ALICE, v="own")
    questions = ("where is User:Alice Smith?", "where is user:alice-smithers?")
    for question in questions:
        asked = {"query": question, "scope": "team"}  # finds nothing
        assert live.call("POST", "/v1/recall", json=asked).status_code == 200
    live.run(live.app_tracker().flush())
    erase(live, entity=ALICE)
    kept = live.call("GET", "/v1/recall/receipts", key=CONTROL_TOKEN).text
    assert [question in kept for question in questions] == [False, True]


def test_receipts_go_whose_request_repeats_a_value(live: LiveNode) -> None:
    said = 'he said "dawn",\nnot dusk'
    facts = [live.state(v=each)["id"] for each in (said, "true", "token_budget")]
    for query, more in (("vault", {"original": said}), ("door", {"include_expired": True})):
        asked = {"query": query, "scope": "team", "token_budget": 500, **more}
        assert live.call("POST", "/v1/recall", json=asked).status_code == 200
    live.run(live.app_tracker().flush())
    erase(live, fact_ids=facts)
    receipts = live.call("GET", "/v1/recall/receipts", key=CONTROL_TOKEN).json()["receipts"]
    assert [receipt["query"] for receipt in receipts] == ["door"]


def test_an_entity_with_nothing_but_episodes_can_be_erased(live: LiveNode) -> None:
    put(live, user=ALICE, id="ep")
    assert erase(live, entity=ALICE) == []
    assert episodes(live, ALICE) == []
    assert asked(live, entity=ALICE).status_code == 404


def test_episodes_of_other_scopes_need_these_scopes(live: LiveNode) -> None:
    live.state(entity=ALICE, v="own", scope="team")
    put(live, user=ALICE, id="ep", scope="company")
    key = live.mint("read", "write", "admin", entity="agent:admin", scopes=["team"])
    answer = asked(live, key, entity=ALICE)
    assert (answer.status_code, answer.json()["detail"]["code"]) == (403, "scope_forbidden")
    assert episodes(live, ALICE) == ["ep"]


def test_a_held_entity_is_held_in_every_spelling(live: LiveNode) -> None:
    ref = live.state(relation="rel:knows", type="ref", v="User:Alice Smith")
    live.state(relation="memory:note", v=f"met {ALICE}")
    put(live, user=ALICE, id="ep")
    hold(live, entity=ALICE, reason="a lawsuit")
    for answer in (asked(live, fact_ids=[ref["id"]]), asked(live, entity=ALICE)):
        assert (answer.status_code, answer.json()["detail"]["code"]) == (423, "legal_hold")


def test_a_mistyped_name_is_held_with_a_warning(live: LiveNode) -> None:
    live.state(entity="user:ann", relation="rel:knows", type="ref", v="user:bo")
    put(live, user="user:cy")
    alias = {"raw_uri": "user:annie", "canonical_uri": "user:ann"}
    assert live.call("POST", "/v1/aliases", json=alias, key=CONTROL_TOKEN).is_success

    def warnings(method: str, path: str, **body: Any) -> list[str] | None:
        answer = live.call(method, path, json=body, key=CONTROL_TOKEN)
        assert answer.is_success, answer.text
        return answer.json().get("warnings")

    unknown = "nothing is known about user:anna"
    meant = "nothing is known about user:annie; it is another name of user:ann"
    holds = "/v1/legal-holds"
    assert warnings("PUT", holds, entity="user:anna") == [unknown]
    assert warnings("PUT", holds, entity="user:annie") == [meant]
    assert warnings("PUT", holds, entity="user:annie", held=False) is None
    assert warnings("PUT", holds, entity="user:annie", held=False) == ["no hold was on user:annie"]
    for name in ("user:ann", "user:bo", "user:cy"):
        assert warnings("POST", "/v1/tombstones", entity_uri=name) is None
        assert warnings("PUT", holds, entity=name) is None  # hidden, and yet known


def test_holds_on_those_who_named_an_entity_stay_in_the_log(live: LiveNode) -> None:
    live.state(entity=ALICE, v="own")
    live.state(entity="user:bo", relation="rel:knows", type="ref", v=ALICE)
    for entity in (ALICE, "user:bo"):
        hold(live, entity=entity, reason=f"a lawsuit about {entity}")
        hold(live, entity=entity, held=False)
    erase(live, entity=ALICE)
    log = live.call("GET", "/v1/log", params={"limit": 100}, key=CONTROL_TOKEN).text
    assert "a lawsuit about user:bo" in log
    assert f"a lawsuit about {ALICE}" not in log
