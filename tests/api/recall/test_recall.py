"""Recall and the graph over HTTP: shapes, leniencies, codes."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import convert, json
from stigmem.models import FactChainProof
from stigmem.verification import verify_fact_chain_proof

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.recall.recall_answer import RecallResponse
from engramlog.api.routes.entities.neighbors import NeighborPage
from engramlog.eventlog.kinds import ProfileSet
from engramlog.projections.recall.profile import built_in_document
from tests.worlds.live import LiveNode, fact
from tests.worlds.waiting import until

RESPONSE_KEYS = [
    "recall_id", "query_hash", "facts", "content", "instructions", "total_scored",
    "token_budget", "tokens_used", "truncated", "tombstone_notices", "chain_proof",
]  # fmt: skip
OWN_KEYS = {
    "results", "query", "request", "generated_at", "token_budget_used", "memory_card",
    "card_stale", "scores_debug", "embedding", "moment", "receipt_id", "hint", "warnings",
}  # fmt: skip


def recall(live: LiveNode, **body: Any) -> dict[str, Any]:
    answer = live.call("POST", "/v1/recall", json={"query": "atlas billing", **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Total-Count"] == str(answer.json()["total_scored"])
    return answer.json()


@pytest.fixture
def atlas(live: LiveNode) -> LiveNode:
    atlas = "stigmem://t.example/project/atlas"
    live.state(entity=atlas, relation="memory:summary", type="text", v="Atlas bills the ledger.")
    live.state(entity=atlas, relation="memory:owner", v="billing team")
    live.state(relation="rel:works-on", type="ref", v=atlas)
    return live


def test_the_answer_holds_every_published_shape(atlas: LiveNode) -> None:
    body = recall(atlas, scope="company")
    json.decode(json.encode(body), type=RecallResponse)
    convert([each["fact"] for each in body["facts"]], list[FactRecord])
    assert list(body)[: len(RESPONSE_KEYS)] == RESPONSE_KEYS
    assert set(body) >= OWN_KEYS
    assert len(body["recall_id"]) == 36
    assert body["query_hash"] == hashlib.sha256(b"atlas billing").hexdigest()
    assert body["facts"]
    assert body["tokens_used"] == body["token_budget_used"]
    assert body["tokens_used"] == sum(each["token_estimate"] for each in body["facts"])
    for scored, flat in zip(body["facts"], body["results"], strict=True):
        assert list(scored["score_breakdown"]) == [
            "lexical", "semantic", "graph", "source_trust", "recency", "weighted_total",
            "relevance", "confidence_factor", "trust_factor", "other_factors", "scale",
        ]  # fmt: skip
        assert flat["fact"] == scored["fact"]
        assert flat["id"] == scored["fact"]["id"]
        assert flat["hops"] == flat["hop_distance"] == scored["hop_distance"]  # seed §20.3.5
        assert isinstance(flat["why"], list)
    assert body["content"] == body["facts"]
    assert body["instructions"] == []
    assert body["embedding"] == {"enabled": False, "model": None}
    assert body["moment"]["position"] == atlas.node.log.head().position


def test_a_question_alone_has_the_protocols_defaults(live: LiveNode) -> None:
    items = [fact(entity=f"user:{n}", v="harbour", scope="local") for n in range(101)]
    assert live.call("POST", "/v1/facts/batch", json=items).status_code == 200
    assert recall(live, query="harbour")["token_budget"] == 4000
    found = recall(live, query="harbour", token_budget=200_000)
    assert (len(found["facts"]), found["total_scored"]) == (100, 101)


def test_legacy_format_leaves_out_the_channels(atlas: LiveNode) -> None:
    answer = atlas.call(
        "POST",
        "/v1/recall",
        params={"legacy_format": "true"},
        json={"query": "atlas", "scope": "company"},
    ).json()
    assert "content" not in answer
    assert "instructions" not in answer
    assert answer["facts"]


def test_instructions_have_their_own_channel(live: LiveNode) -> None:
    key = live.mint("read", "write", "instruction:write")
    live.state(v="always greet", interpret_as="instruction", key=key)
    body = recall(live, query="greet", scope="company")
    assert (len(body["instructions"]), body["content"]) == (1, [])


def test_an_empty_scope_hints_at_one_with_facts(atlas: LiveNode) -> None:
    body = recall(atlas)
    assert (body["facts"], body["total_scored"], body["truncated"]) == ([], 0, False)
    assert body["hint"]["scopes"] == {"company": 3}
    assert recall(atlas, query="zebra", scope="company")["hint"] is None


def test_a_hint_never_tells_of_an_unreadable_scope(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    writer = live.mint("write", entity="agent:w")
    live.state(scope="company", key=writer)
    live.state(scope="team", relation="memory:x", key=writer)
    reader = live.mint("read", entity="agent:r", scopes=["local", "team"])
    answer = live.call("POST", "/v1/recall", key=reader, json={"query": "ceo"}).json()
    assert answer["hint"]["scopes"] == {"team": 1}
    assert "company" not in str(answer["hint"])


def test_one_request_can_search_every_readable_scope(atlas: LiveNode) -> None:
    for scope in ("*", "global"):
        assert recall(atlas, scope=scope)["facts"]


def test_depths_three_and_zero_work_and_budget_one_is_empty(atlas: LiveNode) -> None:
    assert recall(atlas, scope="company", depth=3)["facts"]
    off = recall(atlas, scope="company", depth=0)
    assert {stage["name"]: stage["status"] for stage in off["stages"]}["graph"] == "disabled"
    tight = recall(atlas, scope="company", token_budget=1)
    assert (tight["facts"], tight["tokens_used"], tight["truncated"]) == ([], 0, True)
    assert tight["total_scored"] > 0


def test_seed_weights_that_do_not_sum_to_one_are_400(atlas: LiveNode) -> None:
    body = {"query": "x", "weights": {"lex": 0.5, "vec": 0.2, "graph": 0.2}}
    answer = atlas.call("POST", "/v1/recall", json=body)
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, "invalid_weights")


@pytest.mark.parametrize(
    ("body", "where", "code"),
    [
        ({"depth": 4}, ["body", "depth"], "recall_depth_exceeded"),
        ({"depth": -1}, ["body", "depth"], "recall_depth_exceeded"),
        ({"token_budget": 0}, ["body", "token_budget"], "invalid_token_budget"),
        ({"token_budget": 200_001}, ["body", "token_budget"], "invalid_token_budget"),
        ({"weights": {"lexical": 2}}, ["body", "weights"], "invalid_weights"),
        ({"query": ""}, ["body", "query"], None),
        ({"limit": 0}, ["body", "limit"], None),
        ({"limit": "5"}, ["body", "limit"], None),
        ({"min_confidence": 1.5}, ["body", "min_confidence"], None),
        ({"lambda_mmr": -1}, ["body", "lambda_mmr"], None),
        ({"valid_at": "then"}, ["body", "valid_at"], None),
    ],
)
def test_limits_are_422_with_the_seeds_code_inside(
    atlas: LiveNode, body: dict[str, Any], where: list[str], code: str | None
) -> None:
    body = {"query": "atlas", "scope": "company", **body}
    answer = atlas.call("POST", "/v1/recall", json=body)
    assert answer.status_code == 422, answer.text
    entry = answer.json()["detail"][0]
    assert entry["loc"] == where
    assert entry.get("ctx", {}).get("code") == code
    if code is not None:
        headers = {"Accept": "application/vnd.stigmem.x11+json"}
        seed = atlas.call("POST", "/v1/recall", json=body, headers=headers)
        assert (seed.status_code, seed.json()["detail"]["code"]) == (400, code)


def test_an_unknown_weight_is_named(atlas: LiveNode) -> None:
    weights = {"lexcal": 0.3, "lexical": 1.0, "salt": 1}
    body = {"query": "x", "scope": "company", "weights": weights}
    answer = atlas.call("POST", "/v1/recall", json=body)
    assert answer.json()["warnings"] == [
        "unknown field 'lexcal' is ignored; did you mean 'lexical'?",
        "unknown field 'salt' is ignored",
    ]


def test_weights_of_the_protocol_need_no_sum(atlas: LiveNode) -> None:
    zero = dict.fromkeys(("lexical", "semantic", "graph", "source_trust", "recency"), 0)
    recall(atlas, scope="company", weights=zero)
    recall(atlas, scope="company", weights={"lex": 0.3, "vec": 0.5, "graph": 0.2})


def test_a_scope_that_does_not_exist_is_400(atlas: LiveNode) -> None:
    answer = atlas.call("POST", "/v1/recall", json={"query": "x", "scope": "galaxy"})
    assert answer.status_code == 400
    assert answer.json() == {
        "detail": "invalid_scope: must be one of ['company', 'local', 'public', 'team']"
    }


def test_unknown_fields_and_parameters_are_named(atlas: LiveNode) -> None:
    answer = atlas.call(
        "POST", "/v1/recall", params={"shout": "1"}, json={"query": "x", "force_loudly": True}
    )
    assert answer.json()["warnings"] == [
        "unknown field 'shout' is ignored",
        "unknown field 'force_loudly' is ignored",
    ]


def test_an_unknown_profile_is_400(atlas: LiveNode) -> None:
    answer = atlas.call("POST", "/v1/recall", json={"query": "x", "profile": "nope"})
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, "unknown_profile")
    names = [each["name"] for each in atlas.call("GET", "/v1/profiles").json()["profiles"]]
    assert {"default", "stigmem"} <= set(names)


def test_a_profile_that_an_earlier_release_installed_answers(atlas: LiveNode) -> None:
    factor = {"name": "recency_linear", "mode": "mul"}
    old = built_in_document("default") | {"name": "old", "factors": [factor]}
    atlas.node.write(ProfileSet(name="old", document=old))
    position = atlas.node.log.head().position
    for moment in ({}, {"as_of": f"position:{position}"}):
        found = recall(atlas, profile="old", scope="*", **moment)
        assert (found["profile"], len(found["facts"])) == ("old", 3)


def test_verify_full_proves_the_chain_of_readable_facts(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    writer = live.mint("read", "write", entity="agent:w")
    narrow = live.mint("read", entity="agent:n", scopes=["public"])

    def proof(key: str) -> dict[str, Any]:
        body = {"query": "ceo", "scope": "*"}
        headers = {"Stigmem-Verify": "full"}
        found = live.call("POST", "/v1/recall", key=key, json=body, headers=headers).json()
        verify_fact_chain_proof(FactChainProof.model_validate(found["chain_proof"]))
        return found["chain_proof"]

    assert proof(writer)["checked_entries"] == 0
    live.state(key=writer)
    first = proof(writer)
    live.state(key=writer, scope="public")
    second = proof(writer)
    assert (first["checked_entries"], second["checked_entries"]) == (1, 2)
    assert first["head_hash"] != second["head_hash"]
    assert proof(writer) == second
    assert proof(narrow)["checked_entries"] == 1
    assert second["checkpoint"] is None


def test_recalls_are_counted_in_batches_and_at_the_stop(live: LiveNode) -> None:
    known = live.state()
    head = live.node.log.head().position
    for extra in ({}, {}, {"track": False}, {"as_of": f"position:{head}"}):
        recall(live, query="ceo", scope="company", **extra)
    assert live.node.log.head().position == head
    live.stop()
    view = live.node.reader.pin()
    slots = view.entity_slots(view.entity[0])
    assert view.access_count(slots, live.node.moment()).tolist() == [2]
    counts, receipts = 1, 4
    assert live.node.log.head().position == head + counts + receipts
    assert known["id"]


def test_recalls_are_flushed_within_the_interval(serve: Callable[..., LiveNode]) -> None:
    live = serve(recall_track_interval_s=0.05)
    live.state()
    head = live.node.log.head().position
    recall(live, query="ceo", scope="company")
    until(lambda: live.node.log.head().position >= head + 2)
    kinds = [event.kind for event in live.node.log.read(head)]
    assert kinds == ["recall_served", "recall_answered"]


# -- GET ------------------------------------------------------------------------------------


def test_get_answers_like_post(atlas: LiveNode) -> None:
    answer = atlas.call(
        "GET",
        "/v1/recall",
        params={
            "query": "atlas",
            "token_budget": 500,
            "scope": "company",
            "depth": 2,
            "weights": '{"lex":0.3,"vec":0.5,"graph":0.2}',
        },
    )
    assert answer.status_code == 200, answer.text
    json.decode(answer.content, type=RecallResponse)
    assert answer.json()["facts"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"depth": "3"}, "recall_depth_exceeded"),
        ({"token_budget": "0"}, "invalid_token_budget"),
        ({"weights": '{"lex":1,"vec":1}'}, "invalid_weights"),
        ({"weights": "[]"}, "invalid_weights"),
    ],
)
def test_get_answers_400_with_the_seeds_codes(
    atlas: LiveNode, params: dict[str, str], code: str
) -> None:
    answer = atlas.call(
        "GET", "/v1/recall", params={"query": "atlas", "token_budget": "500", **params}
    )
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, code)


def test_get_requires_query_and_budget(atlas: LiveNode) -> None:
    answer = atlas.call("GET", "/v1/recall")
    assert answer.status_code == 422
    assert [entry["loc"] for entry in answer.json()["detail"]] == [
        ["query", "query"],
        ["query", "token_budget"],
    ]


# -- neighbours -----------------------------------------------------------------------------

HUB = "stigmem://t.example/user/hub"


def neighbors(live: LiveNode, **params: Any) -> Any:
    return live.call("GET", "/v1/graph/neighbors", params={"scope": "company", **params})


def test_neighbours_have_the_protocols_shape(atlas: LiveNode) -> None:
    answer = neighbors(atlas, entity="stigmem://t.example/User/Alice", depth=2).json()
    convert(answer, NeighborPage)
    assert list(answer) == ["entity", "depth", "neighbors", "next_cursor", "total_hint"]
    assert answer["neighbors"] == [
        {
            "entity": "stigmem://t.example/project/atlas",
            "relation": "rel:works-on",
            "hops": 1,
            "confidence": 1.0,
            "source_trust": 1.0,
            "path": ["stigmem://t.example/user/alice"],
        }
    ]


def test_pages_of_neighbours_hold_still_while_edges_arrive(live: LiveNode) -> None:
    for n in range(9):
        live.state(entity=HUB, relation="rel:knows", type="ref", v=f"stigmem://t/user/{n}")
    seen: list[str] = []
    cursor = None
    while True:
        params = {"cursor": cursor} if cursor else {}
        page = neighbors(live, entity=HUB, page_size=4, **params).json()
        assert page["total_hint"] == 9
        seen += [each["entity"] for each in page["neighbors"]]
        live.state(entity=HUB, relation="rel:knows", type="ref", v=f"stigmem://t/user/0{len(seen)}")
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"stigmem://t/user/{n}" for n in range(9)]


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"depth": 0}, 422, None),
        ({"depth": 4}, 400, "graph_depth_exceeded"),
        ({"relation_filter": "rel:*x"}, 400, "invalid_relation_filter"),
        ({"cursor": "zzz"}, 400, "invalid_cursor"),
        ({"page_size": 201}, 422, None),
        ({"scope": "galaxy"}, 400, None),
        ({"entity": ""}, 422, None),
    ],
)
def test_a_wrong_question_for_neighbours_is_refused(
    refusing: LiveNode, params: dict[str, Any], status: int, code: str | None
) -> None:
    answer = neighbors(refusing, **{"entity": HUB, **params})
    assert answer.status_code == status
    if code is not None:
        assert answer.json()["detail"]["code"] == code


def test_scope_and_entity_are_required(live: LiveNode) -> None:
    answer = live.call("GET", "/v1/graph/neighbors")
    assert [entry["loc"][1] for entry in answer.json()["detail"]] == ["entity", "scope"]
