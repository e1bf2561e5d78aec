"""Trust over HTTP: operators' settings, computed trust, and its effect on lists."""

from typing import Any

import pytest
from msgspec import convert

from engramlog.api.routes.rights.trust import TrustPage, TrustRecord
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact


def admin(live: LiveNode, method: str, path: str, **options: Any) -> Any:
    answer = live.call(method, path, key=CONTROL_TOKEN, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def put(live: LiveNode, source: str, trust: float, **more: Any) -> dict[str, Any]:
    body = {"source": source, "trust": trust, **more}
    return admin(live, "PUT", "/v1/trust/sources", json=body)


def listed(live: LiveNode, key: str | None = None, **params: Any) -> list[str]:
    answer = live.call("GET", "/v1/facts", key=key, params={"scope": "company", **params}).json()
    assert answer["total"] == len(answer["facts"])
    return sorted(each["entity"] for each in answer["facts"])


def test_a_source_is_trusted_about_itself_and_others_by_the_formula(guarded: LiveNode) -> None:
    key = guarded.mint("read", "write", entity="agent:writer")
    own = guarded.state(key=key, entity="user:own", source="agent:writer")
    claimed = guarded.state(key=key, entity="user:claimed", source="agent:somebody")
    shown = {
        name: guarded.call("GET", f"/v1/facts/{each['id']}", key=key).json()
        for name, each in (("own", own), ("claimed", claimed))
    }
    assert (shown["own"]["source_trust"], shown["own"]["effective_confidence"]) == (1.0, 1.0)
    # a bare name, no history, no authority, no attestation: .035 + .15 + .05 + .02
    assert (shown["claimed"]["source_trust"], shown["claimed"]["effective_confidence"]) == (
        0.255,
        0.255,
    )
    guarded.mint("read", entity="agent:somebody")
    again = guarded.call("GET", f"/v1/facts/{claimed['id']}", key=key).json()
    assert again["source_trust"] == 1.0, "the source holds a key of this node now"
    params = {"as_of": f"position:{claimed['position']}"}
    then = guarded.call("GET", f"/v1/facts/{claimed['id']}", key=key, params=params).json()
    assert then["source_trust"] == 0.255


def test_loopback_writes_without_authentication_are_trusted(live: LiveNode) -> None:
    record = live.state(source="agent:anybody")
    assert live.call("GET", f"/v1/facts/{record['id']}").json()["source_trust"] == 1.0


def test_settings_are_events_listed_as_of_a_moment(live: LiveNode) -> None:
    first = put(live, "Agent:Shady ", 0.3, reason="seen lying")
    convert(first, TrustRecord)
    assert (first["source"], first["trust"], first["origin"]) == ("agent:shady", 0.3, "set")
    assert (first["reason"], first["set_by"]) == ("seen lying", "system:control")
    put(live, "agent:shady", 0.6)
    put(live, "agent:other", 0.9)
    page = admin(live, "GET", "/v1/trust/sources")
    convert(page, TrustPage)
    assert [(each["source"], each["trust"]) for each in page["sources"]] == [
        ("agent:other", 0.9),
        ("agent:shady", 0.6),
    ]
    then = admin(
        live, "GET", "/v1/trust/sources", params={"as_of": f"position:{first['position']}"}
    )
    assert [(each["source"], each["trust"]) for each in then["sources"]] == [("agent:shady", 0.3)]
    before = admin(live, "GET", "/v1/trust/sources", params={"as_of": "position:1"})
    assert before["sources"] == []


def test_pages_of_settings_keep_their_moment(live: LiveNode) -> None:
    for n in range(5):
        put(live, f"agent:s{n}", 0.5)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = admin(live, "GET", "/v1/trust/sources", params=params)
        seen += [each["source"] for each in page["sources"]]
        put(live, f"agent:s3{len(seen)}", 0.5)
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == [f"agent:s{n}" for n in range(5)]


def test_one_sources_trust_shows_its_origin(guarded: LiveNode) -> None:
    key = guarded.mint("read", "write", entity="agent:writer")
    guarded.state(key=key, entity="user:x", source="agent:ghost")
    guarded.state(key=key, entity="user:y", source="agent:ghost", scope="public")

    def one(source: str) -> dict[str, Any]:
        page = admin(guarded, "GET", "/v1/trust/sources", params={"source": source})
        return page["sources"][0]

    assert (one("agent:writer")["origin"], one("agent:writer")["trust"]) == ("key", 1.0)
    assert one("agent:ghost")["fact_trust"] == {"least": 0.255, "greatest": 0.33}
    assert (one("agent:ghost")["origin"], one("agent:ghost")["trust"]) == ("formula", None)


def test_only_admins_see_or_set_trust(guarded: LiveNode) -> None:
    key = guarded.mint("read", "write", entity="agent:writer")
    for method, path in (("GET", "sources"), ("PUT", "sources"), ("GET", "policy"),
                         ("PUT", "policy")):  # fmt: skip
        answer = guarded.call(method, f"/v1/trust/{path}", key=key, json={})
        assert (answer.status_code, answer.json()["detail"]) == (403, "admin permission required")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("sources", {"source": "agent:a", "trust": 1.1}, "trust"),
        ("sources", {"source": "agent:a", "trust": "1"}, "trust"),
        ("sources", {"source": "agent:a"}, "trust"),
        ("sources", {"trust": 1}, "source"),
        ("sources", {"source": "agent:a", "trust": 1, "why": ""}, "why"),
        ("policy", {"mode": "paranoid"}, "mode"),
        ("policy", {"identity_weight": 0.9}, "body"),
        ("policy", {"history_known_from": 0}, "history_known_from"),
    ],
)
def test_invalid_trust_is_refused(
    refusing: LiveNode, path: str, body: dict[str, Any], field: str
) -> None:
    answer = refusing.call("PUT", f"/v1/trust/{path}", key=CONTROL_TOKEN, json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][-1] == field


# -- lists, edges and recall ----------------------------------------------------------------


def test_lists_omit_low_trust_by_default(live: LiveNode) -> None:
    live.state(entity="user:trusted", source="agent:good")
    live.state(entity="user:unsure", source="agent:good", confidence=0.1)
    live.state(entity="user:half", source="agent:half")
    live.state(entity="user:shady", source="agent:shady")
    live.state(entity="user:blocked", source="agent:blocked")
    for source, trust in (("half", 0.2), ("shady", 0.19), ("blocked", 0.0)):
        put(live, f"agent:{source}", trust)
    # confidence × trust: half 0.2 (kept, not under 0.2), shady 0.19, blocked 0. A trusted source's
    # own low confidence does not count as distrust
    assert listed(live) == ["user:half", "user:trusted", "user:unsure"]
    everything = ["user:blocked", "user:half", "user:shady", "user:trusted", "user:unsure"]
    assert listed(live, include_low_trust="true") == everything
    head = live.node.moment().position
    assert listed(live, as_of=f"position:{head - 3}") == everything, "no source was distrusted then"
    admin(live, "PUT", "/v1/trust/policy", json={"mode": "strict"})
    assert listed(live) == ["user:trusted", "user:unsure"]
    admin(live, "PUT", "/v1/trust/policy", json={"mode": "off"})
    assert listed(live) == everything
    shady = live.call("GET", "/v1/facts", params={"source": "agent:shady"}).json()["facts"][0]
    assert (shady["source_trust"], shady["effective_confidence"]) == (1.0, 1.0)


def test_the_policy_is_complete_and_as_of_a_moment(live: LiveNode) -> None:
    default = admin(live, "GET", "/v1/trust/policy")
    assert (default["mode"], default["identity_weight"], default["strict_hidden_below"]) == (
        "relaxed", 0.35, 0.3,
    )  # fmt: skip
    changed = admin(live, "PUT", "/v1/trust/policy", json={"identity_bare": 0.5})
    assert changed == {**default, "identity_bare": 0.5}
    assert admin(live, "GET", "/v1/trust/policy") == changed
    before = live.node.moment().position - 1
    params = {"as_of": f"position:{before}"}
    assert admin(live, "GET", "/v1/trust/policy", params=params) == default
    admin(live, "PUT", "/v1/trust/policy", json={"identity_bare": 0.5})
    assert live.node.moment().position == before + 1, "what is so already writes nothing"


def test_edges_and_recall_take_the_same_trust(live: LiveNode) -> None:
    live.state(entity="user:a", relation="rel:knows", type="ref", v="user:b", source="agent:s")
    put(live, "agent:s", 0.4)
    params = {"entity": "user:a", "scope": "company"}
    edge = live.call("GET", "/v1/graph/neighbors", params=params).json()["neighbors"][0]
    assert edge["source_trust"] == 0.4
    found = live.call("GET", "/v1/graph/neighbors", params={**params, "min_trust": 0.5}).json()
    assert found["neighbors"] == []
    body: dict[str, Any] = {"query": "knows", "scope": "company"}
    item = live.call("POST", "/v1/recall", json=body).json()["facts"][0]
    assert item["fact"]["effective_confidence"] == 0.4
    put(live, "agent:s", 0.1)
    assert live.call("POST", "/v1/recall", json=body).json()["facts"] == []
    body["include_low_trust"] = True
    body["min_confidence"] = 0.0
    assert len(live.call("POST", "/v1/recall", json=body).json()["facts"]) == 1
    assert live.call("POST", "/v1/facts", json=fact()).status_code == 201
