"""Memory cards over HTTP: the protocol's answer, every row of recall's table (seed §20.4.4)."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engramlog.projections.cards.generator import card_of
from engramlog.projections.tables.facts.cards import CardKey
from tests.worlds.live import CONTROL_TOKEN, LiveNode

ALICE = "stigmem://t.example/user/alice"
BOB = "stigmem://t.example/user/bob"
CARD_RELATION = "stigmem:memory:card"


def card(live: LiveNode, entity: str = ALICE, key: str | None = None, **query: Any) -> Any:
    return live.call("GET", f"/v1/cards/{entity}", key=key, params={"scope": "company", **query})


def ask(live: LiveNode, **body: Any) -> dict[str, Any]:
    key = body.pop("key", None)
    body = {"query": "alice", "scope": "company", "entity": ALICE, "track": False} | body
    body = {name: value for name, value in body.items() if value is not None}
    answer = live.call("POST", "/v1/recall", key=key, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["tokens_used"] == sum(item["token_estimate"] for item in found["facts"])
    assert found["tokens_used"] <= found["token_budget"]
    assert not found["truncated"] or found["total_scored"] > len(found["facts"])
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [item["id"] for item in found["results"]]


def settled(live: LiveNode) -> None:
    assert live.app.service.cards.queue.settle(10)


def warm(live: LiveNode, **query: Any) -> dict[str, Any]:
    answer = card(live, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


class Gate:
    """Holds the queue's thread, so that its work stays waiting."""

    def __init__(self, live: LiveNode) -> None:
        self._cards = live.app.service.cards
        self._go = threading.Event()
        self._cards._write = lambda *a: (self._go.wait(20), card_of(*a))[1]
        self._cards._force_seconds = 0.05

    def open(self) -> None:
        self._go.set()


@pytest.fixture
def shut(live: LiveNode) -> Iterator[Callable[[], Gate]]:
    made: list[Gate] = []

    def shut() -> Gate:
        made.append(Gate(live))
        return made[-1]

    yield shut
    for gate in made:
        gate.open()


# -- GET /v1/cards ------------------------------------------------------------------------


def test_a_card_has_the_protocols_keys_and_its_markdown(live: LiveNode) -> None:
    ceo = live.state(v="CEO")
    cto = live.state(v="CTO", confidence=0.9, source="agent:b")
    found = warm(live)
    assert list(found)[:8] == [
        "entity_uri", "scope", "summary", "fact_hashes", "avg_confidence", "refreshed_at",
        "is_stale", "has_contradictions",
    ]  # fmt: skip
    assert found["entity_uri"] == ALICE
    assert found["scope"] == "company"
    assert found["avg_confidence"] == 0.95
    assert found["has_contradictions"] is True
    assert found["is_stale"] is False
    newest_first = [cto["id"], ceo["id"]]
    assert found["fact_hashes"] == [hashlib.sha256(i.encode()).hexdigest() for i in newest_first]
    assert found["contradictions"] == [[ceo["id"], cto["id"]]]
    assert found["relation"] == "stigmem:card:summary"
    assert (
        "CEO (confidence 1.00, stigmem://t/agent/a) ≠ CTO (confidence 0.90, agent:b)"
        in (found["markdown"])
    )


def test_a_card_has_the_facts_from_an_effective_confidence_of_0_3_on(live: LiveNode) -> None:
    live.state(relation="memory:in", confidence=0.3)
    live.state(relation="memory:out", confidence=0.299999)
    text = warm(live)["markdown"]
    assert ("memory:in" in text, "memory:out" in text) == (True, False)


def test_no_facts_and_wrong_scopes(live: LiveNode) -> None:
    live.state()
    absent = card(live, BOB)
    assert (absent.status_code, absent.json()) == (404, {"detail": "no facts found for entity"})
    assert live.call("GET", f"/v1/cards/{ALICE}").status_code == 404, "the default is local"
    assert card(live, scope="nowhere").status_code == 400
    assert card(live, garden_id="g").status_code == 404


def test_the_path_name_is_normalised(live: LiveNode) -> None:
    live.state(entity="Alice Smith")
    assert card(live, "Alice%20Smith").json()["entity_uri"] == "alice-smith"


def test_a_retracted_fact_leaves_the_card_and_the_last_takes_it_along(live: LiveNode) -> None:
    fact = live.state(v="CEO")
    other = live.state(relation="memory:likes", v="tea")
    warm(live)
    live.call("POST", f"/v1/facts/{fact['id']}/retract", json={})
    assert "CEO" not in warm(live)["markdown"]
    live.call("POST", f"/v1/facts/{other['id']}/retract", json={})
    assert card(live).status_code == 404


def test_a_card_contains_a_fact_just_written(live: LiveNode) -> None:
    for number in range(10):
        live.state(relation=f"memory:r{number}", v=f"v{number}")
        found = warm(live)
        assert found["facts"] == number + 1
        assert found["is_stale"] is False


def test_a_card_of_the_past_is_exact(live: LiveNode) -> None:
    live.state(v="CEO")
    then = warm(live)
    live.state(relation="memory:likes", v="tea")
    now = warm(live)
    past = warm(live, as_of=f"position:{then['moment']['position']}")
    assert past["markdown"] == then["markdown"] != now["markdown"]
    assert past["is_stale"] is False
    assert card(live, as_of="position:1").status_code == 404
    assert warm(live)["markdown"] == now["markdown"], "the past leaves nothing behind"


def test_refresh_writes_a_fresh_card_again(live: LiveNode) -> None:
    live.state()
    first = warm(live)
    assert warm(live)["refreshed_at"] == first["refreshed_at"]
    again = warm(live, refresh="true")
    assert again["refreshed_at"] > first["refreshed_at"]
    assert again["markdown"] == first["markdown"]


def test_a_refresh_that_takes_too_long_gives_the_stale_card(
    live: LiveNode, shut: Callable[[], Gate]
) -> None:
    live.state()
    old = warm(live)
    settled(live)
    shut()
    live.state(relation="memory:likes", v="tea")
    late = warm(live, refresh="true")
    assert late["markdown"] == old["markdown"]
    assert (late["is_stale"], late["card_stale"], late["force_refresh_timeout"]) == (True,) * 3
    live.state(v="another CEO")  # the card at hand says nothing true any more
    refused = card(live, refresh="true")
    assert refused.status_code == 503
    assert refused.json()["detail"]["code"] == "card_refresh_timeout"
    assert refused.headers["Retry-After"] == "1"


def test_no_key_gets_a_card_of_a_scope_outside_it(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    writer = live.mint("read", "write", entity="stigmem://t/agent/a")
    reader = live.mint("read", entity="agent:r", scopes=["local"])
    live.state(key=writer, v="secret")
    found = card(live, key=writer).json()
    assert card(live, key=reader).status_code == 404
    absent = live.call("GET", "/v1/facts/nothing", key=reader)
    hidden = live.call("GET", f"/v1/facts/{found['card_id']}", key=reader)
    assert (hidden.status_code, hidden.content) == (absent.status_code, absent.content)
    listed = live.call(
        "GET", "/v1/facts", key=reader, params={"entity": ALICE, "relation": CARD_RELATION}
    )
    assert listed.json()["facts"] == []
    answer = ask(live, key=reader, scope="*")
    assert answer["memory_card"] is None
    assert card(live).status_code == 401


# -- as a fact ----------------------------------------------------------------------------


def test_a_card_is_a_fact_to_those_who_ask_for_it(live: LiveNode) -> None:
    live.state(v="CEO")
    live.state(v="CEO", scope="local")
    found = warm(live)
    record = live.call("GET", f"/v1/facts/{found['card_id']}").json()
    assert record["entity"] == ALICE
    assert record["relation"] == CARD_RELATION
    assert record["value"] == {"type": "text", "v": found["markdown"], "interpret_as": "content"}
    assert record["source"] == "system:stigmem:card-generator"
    assert record["scope"] == "company"
    assert record["confidence"] == 1.0
    assert len(record["derived_from"]) == 1
    assert found["card_id"] == CardKey(ALICE, "company").card_id
    asked = {"entity": ALICE, "relation": CARD_RELATION}
    listed = live.call("GET", "/v1/facts", params=asked).json()
    assert listed["total"] == 2
    assert {each["scope"] for each in listed["facts"]} == {"local", "company"}
    assert record in listed["facts"]
    one = live.call("GET", "/v1/facts", params={**asked, "scope": "company"}).json()
    assert one["facts"] == [record]


def test_a_card_is_in_no_plain_list_and_no_recall(live: LiveNode) -> None:
    live.state(v="CEO")
    warm(live)
    assert live.call("GET", "/v1/facts").json()["total"] == 1
    assert live.call("GET", "/v1/facts", params={"entity": ALICE}).json()["total"] == 1
    assert ask(live, query="facts scope company", entity=None)["total_scored"] <= 1


def test_decay_leaves_cards_alone(live: LiveNode) -> None:
    live.state(v="CEO")
    found = warm(live)
    live.call("POST", "/v1/decay/sweep", params={"ttl_seconds": 1_000_000, "scope": "company"})
    record = live.call("GET", f"/v1/facts/{found['card_id']}").json()
    assert record["confidence"] == 1.0


# -- recall, row by row (§20.4.4) ---------------------------------------------------------


def test_entity_centric_with_a_card_gives_card_and_raw_facts(live: LiveNode) -> None:
    facts = [live.state(relation=f"memory:r{n}", v=f"v{n}") for n in range(3)]
    written = warm(live)
    found = ask(live)
    written.pop("moment")
    assert {**found["memory_card"], "moment": None} == {**written, "moment": None}
    assert found["card_stale"] is False
    assert set(ids(found)) == {fact["id"] for fact in facts}
    assert all(item["card_stale"] is False for item in found["results"])
    assert all(item["from_card"] is False for item in found["facts"])


def test_a_relation_filter_skips_the_card(live: LiveNode) -> None:
    live.state(v="CEO")
    live.state(relation="memory:likes", v="tea")
    warm(live)
    found = ask(live, relation="memory:likes")
    assert found["memory_card"] is None
    assert [item["relation"] for item in found["results"]] == ["memory:likes"]
    assert ask(live, source="stigmem://t/agent/a")["memory_card"] is None


def test_a_stale_card_comes_flagged_with_ten_raw_facts(
    live: LiveNode, shut: Callable[[], Gate]
) -> None:
    for number in range(14):
        live.state(relation=f"memory:r{number}", v=f"v{number}")
    old = warm(live)
    settled(live)
    gate = shut()
    live.state(relation="memory:new", v="new")
    found = ask(live)
    assert found["card_stale"] is True
    assert found["memory_card"]["card_stale"] is True
    assert found["memory_card"]["markdown"] == old["markdown"]
    assert len(found["facts"]) == 10
    assert found["truncated"] is True
    gate.open()
    settled(live)
    found = ask(live)
    assert found["card_stale"] is False
    assert len(found["facts"]) == 15
    assert "memory:new" in found["memory_card"]["markdown"]


def test_contradictions_come_with_both_raw_facts(live: LiveNode) -> None:
    ceo = live.state(v="CEO", confidence=0.5)
    cto = live.state(v="CTO", confidence=0.4)
    for number in range(20):
        live.state(relation=f"memory:r{number}", v=f"alice {number}")
    warm(live)
    # Room for three facts; the two sides score lowest, and are there nevertheless.
    found = ask(live, limit=3, include_contradicted=True)
    assert {ceo["id"], cto["id"]} <= set(ids(found))
    assert len(found["facts"]) == 3
    assert set(found["memory_card"]["contradictions"][0]) == {ceo["id"], cto["id"]}
    scores = [item["score"] for item in found["facts"]]
    assert scores == sorted(scores, reverse=True)
    without = ask(live, include_contradicted=False)
    assert not {ceo["id"], cto["id"]} & set(ids(without))


def test_no_card_gives_raw_facts_and_has_one_written(live: LiveNode) -> None:
    fact = live.state(v="CEO")
    found = ask(live)
    assert found["memory_card"] is None
    assert found["card_stale"] is False
    assert ids(found) == [fact["id"]]
    settled(live)
    assert ask(live)["memory_card"] is not None


def test_a_card_in_the_making_blocks_no_caller(live: LiveNode, shut: Callable[[], Gate]) -> None:
    fact = live.state(v="CEO")
    shut()
    for _ in range(2):
        found = ask(live)
        assert found["memory_card"] is None
        assert ids(found) == [fact["id"]]


def test_an_open_question_gets_no_card(live: LiveNode) -> None:
    live.state(v="CEO")
    warm(live)
    assert ask(live, entity=None, query="ceo")["memory_card"] is None


def test_an_unknown_entity_gets_no_card(live: LiveNode) -> None:
    live.state(v="CEO")
    found = ask(live, entity=BOB)
    assert (found["memory_card"], found["card_stale"]) == (None, False)


def test_force_refresh_gives_the_card_of_now(live: LiveNode) -> None:
    live.state(v="CEO")
    found = ask(live, force_refresh=True)
    assert "CEO" in found["memory_card"]["markdown"]
    assert (found["card_stale"], found["force_refresh_timeout"]) == (False, False)


def test_force_refresh_out_of_time(live: LiveNode, shut: Callable[[], Gate]) -> None:
    fact = live.state(v="CEO")
    shut()
    found = ask(live, force_refresh=True)
    assert found["memory_card"] is None
    assert (found["card_stale"], found["force_refresh_timeout"]) == (True, True)
    assert ids(found) == [fact["id"]]


def test_recall_of_the_past_has_the_card_of_the_past(live: LiveNode) -> None:
    position = live.state(v="CEO")["position"]
    live.state(relation="memory:likes", v="tea")
    found = ask(live, as_of=f"position:{position}")
    assert found["memory_card"]["facts"] == 1
    assert found["card_stale"] is False


def test_every_scope_at_once_gives_the_card_of_most_facts(live: LiveNode) -> None:
    live.state(v="CEO", scope="local")
    for number in range(2):
        live.state(relation=f"memory:r{number}", v=f"v{number}")
    found = ask(live, scope="*", force_refresh=True)
    assert found["memory_card"]["scope"] == "company"
    assert "CEO" not in found["memory_card"]["markdown"]


# -- divergence (§20.4.5) -----------------------------------------------------------------


def test_a_contradicted_card_is_not_served_and_the_new_fact_is(
    live: LiveNode, shut: Callable[[], Gate]
) -> None:
    live.state(v="CEO")
    for number in range(20):
        live.state(relation=f"memory:r{number}", v=f"alice {number}")
    warm(live)
    settled(live)
    shut()
    divergent = live.state(v="no longer anything", confidence=0.4)
    found = ask(live, limit=3)
    assert found["memory_card"] is None
    assert found["card_stale"] is True
    flagged = {item["id"]: item["card_stale"] for item in found["results"]}
    assert flagged[divergent["id"]] is True
    assert len(found["results"]) == 3


# -- the fast path ------------------------------------------------------------------------


def test_the_fast_path_puts_the_card_in_the_place_of_its_facts(live: LiveNode) -> None:
    for number in range(3):
        live.state(relation=f"memory:r{number}", v=f"atlas {number}")
    live.state(entity=BOB, relation="memory:role", v="atlas CEO")
    live.state(entity=BOB, relation="memory:role", v="atlas CTO")
    found = ask(live, entity=None, query="atlas", profile="stigmem")
    cards = [item for item in found["facts"] if item["from_card"]]
    assert len(cards) == 1
    fact = cards[0]["fact"]
    assert fact["relation"] == "stigmem:card:summary"
    assert fact["entity"] == ALICE
    assert fact["id"] == CardKey(ALICE, "company").card_id
    assert fact["source"] == "system:stigmem:card-generator"
    assert fact["origin_node_id"] is None
    assert all(f"memory:r{n}: atlas {n} (conf=1.00)" in fact["value"]["v"] for n in range(3))
    raw = [item["fact"]["entity"] for item in found["facts"] if not item["from_card"]]
    assert raw == [BOB, BOB], "in dispute: raw"


def test_a_card_keeps_the_lineage_of_its_facts(live: LiveNode) -> None:
    parent = live.state(entity=BOB, relation="memory:seen", v="a stranger in the yard")
    hash_ = parent["cid"].removeprefix("sha256:")
    for number in range(2):
        derived = [{"hash": hash_, "fact_id": parent["id"]}]
        live.state(relation=f"memory:r{number}", v=f"atlas {number}", derived_from=derived)
    found = ask(live, entity=None, query="atlas", profile="stigmem")
    card, other = found["results"]
    assert (card["from_card"], other["from_card"]) == (True, False)
    assert card["derived_from_hashes"] == [hash_]
    assert card["fact"]["derived_from"] == [{"hash": parent["cid"], "fact_id": parent["id"]}]
    assert (other["id"], other["provenance_of"]) == (parent["id"], card["id"])


def test_the_default_profile_keeps_the_evidence(live: LiveNode) -> None:
    fact = live.state(v="atlas")
    found = ask(live, entity=None, query="atlas")
    assert ids(found) == [fact["id"]]


@pytest.mark.parametrize(
    "body", [{"relation": "memory:role"}, {"source": "stigmem://t/agent/a"}, {"entity": ALICE}]
)
def test_no_fast_path_if_a_card_would_exceed_the_request(
    live: LiveNode, body: dict[str, Any]
) -> None:
    live.state(v="atlas")
    found = ask(live, **({"entity": None, "query": "atlas", "profile": "stigmem"} | body))
    assert [item["from_card"] for item in found["facts"]] == [False]


def test_no_fast_path_for_little_confidence_or_instructions(live: LiveNode) -> None:
    live.state(v="atlas", confidence=0.4)
    live.state(key=CONTROL_TOKEN, entity=BOB, v="atlas first", interpret_as="instruction")
    found = ask(live, entity=None, query="atlas", profile="stigmem")
    assert [item["from_card"] for item in found["facts"]] == [False, False]
    assert len(found["instructions"]) == 1


def test_the_fast_path_keeps_within_the_budget_and_is_not_tracked(live: LiveNode) -> None:
    for number in range(15):
        live.state(relation=f"memory:relation-number-{number}", v=f"atlas {number} " + "x" * 90)
    found = ask(live, entity=None, query="atlas", profile="stigmem", token_budget=70, track=True)
    assert [item["from_card"] for item in found["facts"]] == [False], "the card would not fit"
    found = ask(live, entity=None, query="atlas", profile="stigmem", track=True)
    assert [item["from_card"] for item in found["facts"]] == [True]
    tracked = live.app.service.tracker._uses
    assert CardKey(ALICE, "company").card_id not in tracked
    assert len(tracked) == 1


# -- running ------------------------------------------------------------------------------


def test_the_queue_shows_in_the_metrics(live: LiveNode, shut: Callable[[], Gate]) -> None:
    live.state()
    live.state(entity=BOB)
    gate = shut()
    ask(live)
    ask(live, entity=BOB)
    text = live.call("GET", "/metrics").text
    assert "\nengramlog_cards_waiting 1\n" in text or "\nengramlog_cards_waiting 2\n" in text
    gate.open()
    settled(live)
    text = live.call("GET", "/metrics").text
    assert "\nengramlog_cards_waiting 0\n" in text
    assert "\nengramlog_cards_kept 2\n" in text
    assert "\nengramlog_cards_refused_total 0\n" in text


def test_the_settings_reach_the_cards(serve: Callable[..., LiveNode]) -> None:
    live = serve(card_max_age_s=0.000001, card_queue_max=1)
    live.state()
    warm(live)
    found = ask(live)
    assert found["card_stale"] is True
    assert found["memory_card"]["facts"] == 1


def test_a_stop_does_not_wait_for_unneeded_cards(serve: Callable[..., LiveNode]) -> None:
    live = serve()
    for number in range(200):
        live.state(entity=f"user:{number}")
        ask(live, entity=f"user:{number}")
    live.stop()
    assert live.app.service.cards.queue.waiting == 0
