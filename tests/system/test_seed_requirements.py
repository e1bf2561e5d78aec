"""The MUST requirements of the protocol's recall specifications, tested on a running node.

Each test names the paragraph: §20.x is Spec-X11 (recall and graph), §07 the basic recall pipeline.
The tables that §20 prescribes are read from the node's files; the rest is tested over HTTP.
"""

import json
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.worlds.processes import NodeProcess, create_key, engramlog, serving
from tests.worlds.seed_node import Caller, rows, uri, vectors
from tests.worlds.waiting import until

ADMIN, ANN, BOB = (f"{name}-key-{'x' * 40}" for name in ("admin", "ann", "bob"))
EMBEDDING = {"STIGMEM_EMBED_ENABLED": "true", "STIGMEM_EMBED_PROVIDER": "minilm"}
ABSENT = "ab" * 32


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("seeds") / "data"
    for name, key, more in (
        ("ops", ADMIN, ("admin", "federate")),
        ("ann", ANN, ()),
        ("bob", BOB, ()),
    ):
        source = "*" if name == "ann" else None
        create_key(data, key, f"agent:{name}", "read", "write", *more, source=source, env=EMBEDDING)
    with serving(data, env={**EMBEDDING, "STIGMEM_CURSOR_TTL_S": "2"}) as process:
        yield process


@pytest.fixture(scope="module")
def admin(node: NodeProcess) -> Iterator[Caller]:
    with Caller(node.url, ADMIN) as caller:
        yield caller


@pytest.fixture(scope="module")
def ann(node: NodeProcess) -> Iterator[Caller]:
    with Caller(node.url, ANN) as caller:
        yield caller


@pytest.fixture(scope="module")
def bob(node: NodeProcess) -> Iterator[Caller]:
    with Caller(node.url, BOB) as caller:
        yield caller


@pytest.fixture(scope="module")
def garden(ann: Caller) -> str:
    made = ann.ask("POST", "/v1/gardens", 201, json={"slug": "secret", "name": "Secret"})
    return made["id"]


# §20.1 and §20.7: the edges


def test_20_1_2_the_table_of_edges_has_its_columns_and_three_indexes(node: NodeProcess) -> None:
    columns = [row[1] for row in rows(node, "PRAGMA table_info(entity_edges)")]
    required = ["id", "subject", "relation", "object", "scope", "confidence", "source_trust"]
    assert {*required, "decay_epoch", "created_at"} <= set(columns)
    held = {row[1] for row in rows(node, "PRAGMA index_list(entity_edges)")}
    for index, fields in {
        "idx_edges_subject": ["subject", "scope", "confidence"],
        "idx_edges_object": ["object", "scope", "confidence"],
        "idx_edges_subject_rel": ["subject", "relation", "scope"],
    }.items():
        assert index in held
        assert [row[2] for row in rows(node, f"PRAGMA index_info({index})")] == fields


def test_20_7_facts_count_their_accesses(node: NodeProcess) -> None:
    columns = {row[1] for row in rows(node, "PRAGMA table_info(facts)")}
    assert {"access_count", "last_accessed_at", "confidence"} <= columns


def test_20_1_3_a_ref_fact_has_an_edge_with_its_id_to_the_normalised_object(
    node: NodeProcess, ann: Caller
) -> None:
    fact = ann.say(uri("e/one"), "rel:knows", "stigmem://SEED.example/E/Some One")
    edges = "SELECT id, object, confidence FROM entity_edges WHERE id = ?"
    assert rows(node, edges, fact["id"]) == [(fact["id"], uri("e/some-one"), 1.0)]


def test_20_1_3_a_sweep_changes_fact_and_edge_together(
    node: NodeProcess, admin: Caller, ann: Caller
) -> None:
    fact = ann.say(uri("e/old"), "memory:boss", uri("e/boss"), scope="team")
    policy = {"relation": "memory:boss", "scope": "team", "mode": "confidence"}
    admin.ask(
        "PUT", "/v1/decay/policies/fade", json={**policy, "half_life_s": 1, "min_confidence": 0.25}
    )
    admin.ask("POST", "/v1/decay/sweep?scope=team")
    joined = (
        "SELECT f.confidence, e.confidence, e.decay_epoch FROM facts f JOIN entity_edges e"
        " ON e.id = f.id WHERE f.id = ?"
    )
    ((of_fact, of_edge, epoch),) = rows(node, joined, fact["id"])
    assert 0.25 <= of_fact == of_edge < 1.0
    assert abs(epoch - datetime.now(UTC).timestamp() * 1000) < 60_000


def test_20_1_3_a_retraction_keeps_both_rows_at_zero_and_notes_when(
    node: NodeProcess, ann: Caller
) -> None:
    fact = ann.say(uri("e/two"), "rel:knows", uri("e/gone"))
    ann.ask("POST", f"/v1/facts/{fact['id']}/retract", json={"reason": "wrong"})
    one = fact["id"]
    assert rows(node, "SELECT confidence FROM facts WHERE id = ?", one) == [(0.0,)]
    assert rows(node, "SELECT confidence FROM entity_edges WHERE id = ?", one) == [(0.0,)]
    ended = rows(node, "SELECT fact_id FROM fact_retractions WHERE fact_id = ?", one)
    assert ended == [(one,)]


def test_20_1_3_an_edge_goes_with_its_deleted_fact(
    node: NodeProcess, admin: Caller, ann: Caller
) -> None:
    fact = ann.say(uri("e/three"), "rel:knows", uri("e/erased"))
    asked = {"fact_ids": [fact["id"]], "reason": "request"}
    erased = admin.http.post("/v1/erasures", json=asked)
    assert erased.status_code in (200, 201, 202), erased.text
    assert rows(node, "SELECT id FROM entity_edges WHERE id = ?", fact["id"]) == []


def test_20_1_5_depth_scope_and_filter_of_neighbours(ann: Caller) -> None:
    def refused(status: int, **params: Any) -> Any:
        asked = {"entity": uri("n/a"), "scope": "company", **params}
        return ann.ask("GET", "/v1/graph/neighbors", status, params=asked)["detail"]

    assert refused(400, depth=4)["code"] == "graph_depth_exceeded"
    assert refused(400, relation_filter="rel:(a|b).*")["code"] == "invalid_relation_filter"
    assert refused(400, relation_filter="r*l")["code"] == "invalid_relation_filter"
    ann.ask("GET", "/v1/graph/neighbors", 422, params={"entity": uri("n/a")})


def test_20_1_5_a_walk_stays_in_its_scope_and_reports_the_shortest_path(ann: Caller) -> None:
    ann.say(uri("n/a"), "rel:to", uri("n/b"))
    ann.say(uri("n/b"), "rel:to", uri("n/c"))
    ann.say(uri("n/a"), "other:to", uri("n/c"))
    ann.say(uri("n/a"), "rel:to", uri("n/elsewhere"), scope="public")
    params = {"entity": uri("n/a"), "scope": "company", "depth": 3}
    found = ann.ask("GET", "/v1/graph/neighbors", params=params)["neighbors"]
    assert {one["entity"]: one["hops"] for one in found} == {uri("n/b"): 1, uri("n/c"): 1}
    found = ann.ask("GET", "/v1/graph/neighbors", params={**params, "relation_filter": "rel:*"})
    hops = {one["entity"]: one["hops"] for one in found["neighbors"]}
    assert hops == {uri("n/b"): 1, uri("n/c"): 2}


def test_20_1_6_pages_of_neighbours_neither_skip_nor_repeat(ann: Caller) -> None:
    names = [uri(f"p/{n:02}") for n in range(6)]
    for name in names:
        ann.say(uri("p/hub"), "rel:to", name)
    params = {"entity": uri("p/hub"), "scope": "company", "page_size": 2}
    first = ann.ask("GET", "/v1/graph/neighbors", params=params)
    seen = [one["entity"] for one in first["neighbors"]]
    ann.say(uri("p/hub"), "rel:to", uri("p/00-between"))
    cursor = first["next_cursor"]
    while cursor:
        page = ann.ask("GET", "/v1/graph/neighbors", params={**params, "cursor": cursor})
        seen += [one["entity"] for one in page["neighbors"]]
        cursor = page.get("next_cursor")
    assert seen == names


def test_20_1_6_a_cursor_expires(ann: Caller) -> None:
    for n in range(3):
        ann.say(uri("x/hub"), "rel:to", uri(f"x/{n}"))
    params = {"entity": uri("x/hub"), "scope": "company", "page_size": 1}
    cursor = ann.ask("GET", "/v1/graph/neighbors", params=params)["next_cursor"]
    time.sleep(3)
    late = ann.ask("GET", "/v1/graph/neighbors", 400, params={**params, "cursor": cursor})
    assert late["detail"]["code"] == "cursor_expired"


# §20.2: vectors


def test_20_2_vectors_are_of_the_fact_alone_unit_and_outlive_a_contradiction(
    node: NodeProcess, ann: Caller
) -> None:
    one = ann.say(uri("v/sun"), "memory:colour", "yellow as butter")
    other = ann.say(uri("v/sun"), "memory:colour", "white as snow")
    weak = ann.say(uri("v/sun"), "memory:guess", "perhaps green", confidence=0.05)
    opened = vectors(node)
    ((schema,),) = opened.execute("SELECT sql FROM sqlite_master WHERE name = 'vec_facts'")
    assert "vec0" in schema
    assert "id TEXT PRIMARY KEY" in " ".join(schema.split())
    for fact in (one, other):
        found = list(opened.execute("SELECT embedding FROM vec_facts WHERE id = ?", (fact["id"],)))
        vector = np.frombuffer(found[0][0], dtype=np.float32)
        assert len(vector) == 384
        assert math.isclose(float(np.linalg.norm(vector)), 1.0, abs_tol=1e-5)
    assert not list(opened.execute("SELECT 1 FROM vec_facts WHERE id = ?", (weak["id"],)))
    opened.close()


def test_20_2_4_the_dimensions_are_declared(ann: Caller) -> None:
    told = ann.ask("GET", "/.well-known/stigmem")
    assert told["embedding"]["dimensions"] == 384


def test_20_2_4_other_dimensions_refuse_to_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, "--no-auth", env=EMBEDDING):
        pass
    ended = engramlog(
        "serve", "--data", data, "--port", "0", "--no-auth",
        env={**EMBEDDING, "STIGMEM_EMBED_DIMENSIONS": "768"}, timeout_seconds=60,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "dimensionality mismatch" in ended.stderr
    assert "Traceback" not in ended.stderr


# §20.3: recall


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"token_budget": 0}, "invalid_token_budget"),
        ({"depth": 4}, "recall_depth_exceeded"),
        ({"weights": {"lex": 0.5, "vec": 0.5, "graph": 0.5}}, "invalid_weights"),
        ({"weights": {"lexical": 0.1, "vector": 0.1, "graph": 0.1}}, "invalid_weights"),
    ],
)
def test_20_3_2_a_recall_out_of_bounds_is_refused(
    ann: Caller, fields: dict[str, Any], code: str
) -> None:
    body = {"query": "anything", "token_budget": 100, **fields}
    answer = ann.http.post("/v1/recall", json=body)
    assert answer.status_code in (400, 422)
    assert code in json.dumps(answer.json()["detail"])
    flat = {name: value for name, value in body.items() if name != "weights"}
    if "weights" not in fields:
        asked = {**flat, **({"depth": 3} if "depth" in fields else {})}
        assert ann.ask("GET", "/v1/recall", 400, params=asked)["detail"]["code"] == code


def test_20_3_4_a_budget_for_nothing_is_no_error(ann: Caller) -> None:
    ann.say(uri("b/one"), "memory:note", "budgets are for accountants")
    told = ann.recall("budgets for accountants", token_budget=1)
    assert told["results"] == []
    assert told["truncated"] is True
    assert told["scores_debug"] is None


def test_20_3_4_costs_are_as_the_formula_says(ann: Caller) -> None:
    text = "Grüße aus Łódź, with more than forty bytes of text"
    ann.say(uri("b/cost"), "memory:greeting", text)
    (found,) = (
        one for one in ann.recall("Grüße aus Łódź")["results"] if one["entity"] == uri("b/cost")
    )
    assert found["token_estimate"] == 40 + math.ceil(len(text.encode()) / 4)


def test_20_3_4_about_an_entity_all_of_its_facts_best_first(ann: Caller) -> None:
    for n in range(12):
        ann.say(uri("c/all"), f"memory:n{n}", f"the same words again and again {n}")
    told = ann.recall("words", entity=uri("c/all"), lambda_mmr=0.0)
    scores = [one["score"] for one in told["results"]]
    assert len(scores) == 12
    assert scores == sorted(scores, reverse=True)
    assert {one["entity"] for one in told["results"]} == {uri("c/all")}


def test_20_3_3_recalls_count_as_accesses(tmp_path: Path) -> None:
    env = {"STIGMEM_RECALL_TRACK_INTERVAL_S": "0.1"}
    with serving(tmp_path / "data", "--no-auth", env=env) as node:
        with Caller(node.url, None) as caller:
            fact = caller.say(uri("a/one"), "memory:note", "counted zebras", source="agent:me")
            for _ in range(3):
                assert caller.recall("zebras")["results"]
        node.stop()
        count = "SELECT access_count, last_accessed_at FROM facts WHERE id = ?"
        ((counted, last),) = rows(node, count, fact["id"])
    assert counted == 3
    assert last is not None


def test_20_3_6_facts_of_low_trust_are_omitted(admin: Caller, ann: Caller) -> None:
    ann.say(uri("t/one"), "memory:note", "gossip about giraffes", source="agent:gossip")
    trust = {"source": "agent:gossip", "trust": 0.1, "reason": "lies"}
    admin.ask("PUT", "/v1/trust/sources", json=trust)
    assert ann.recall("gossip giraffes", min_confidence=0)["results"] == []
    shown = ann.recall("gossip giraffes", min_confidence=0, include_low_trust=True)["results"]
    assert [one["entity"] for one in shown] == [uri("t/one")]
    assert shown[0]["source_trust"] == 0.1


# §20.4: cards


def test_20_4_2_a_card_shows_all_that_counts_in_order_with_both_sides(
    admin: Caller, ann: Caller
) -> None:
    entity = uri("card/alice")
    trust = {"source": "agent:hr", "trust": 1.0, "reason": "ours"}
    admin.ask("PUT", "/v1/trust/sources", json=trust)
    ann.say(entity, "memory:role", "CEO")
    ann.say(entity, "memory:role", "CTO", source="agent:hr", confidence=0.9)
    ann.say(entity, "memory:age", "44")
    ann.say(entity, "memory:weak", "a rumour", confidence=0.2)
    card = ann.ask("GET", f"/v1/cards/{entity}?scope=company")
    table = [line.split("|")[1:3] for line in card["markdown"].splitlines() if "| memory:" in line]
    shown = [(relation.strip(), value.strip()) for relation, value in table]
    assert shown == [("memory:age", "44"), ("memory:role", "CTO"), ("memory:role", "CEO")]
    contradiction = card["markdown"].split("## Contradictions")[1]
    for part in ("CEO", "1.00", "CTO", "0.90"):
        assert part in contradiction
    assert card["has_contradictions"] is True


def test_20_4_2_a_card_mixes_no_gardens_and_outsiders_get_raw_facts_alone(
    ann: Caller, bob: Caller, garden: str
) -> None:
    entity = uri("card/both")
    ann.say(entity, "memory:open", "known to all")
    ann.say(entity, "memory:hidden", "known to members", garden_id=garden)
    open_card = ann.ask("GET", f"/v1/cards/{entity}?scope=company")
    assert "known to members" not in open_card["markdown"]
    bob.ask("GET", f"/v1/cards/{entity}?scope=company&garden_id={garden}", 404)
    ann.ask("GET", f"/v1/cards/{entity}?scope=company&garden_id={garden}")
    told = bob.recall("known", entity=entity, force_refresh=True)
    assert "known to members" not in json.dumps(told)
    assert [one["value"]["v"] for one in told["results"]] == ["known to all"]


def test_20_4_3_cards_do_not_decay(admin: Caller, ann: Caller) -> None:
    entity = uri("card/still")
    ann.say(entity, "memory:note", "still here", scope="public")
    card = ann.ask("GET", f"/v1/cards/{entity}?scope=public")
    swept = admin.ask("POST", "/v1/decay/sweep?scope=public&ttl_seconds=0")
    assert swept["dry_run"] is False
    fact = ann.ask("GET", f"/v1/facts/{card['card_id']}", params={"as_of": card_moment(card)})
    assert fact["confidence"] == 1.0
    assert fact["relation"] == "stigmem:memory:card"
    assert fact["source"] == "system:stigmem:card-generator"


def card_moment(card: dict[str, Any]) -> str:
    return f"position:{card['moment']['position']}"


def test_20_4_3_and_5_a_forced_card_is_current_and_a_false_one_is_not_served(
    ann: Caller,
) -> None:
    entity = uri("card/moves")
    ann.say(entity, "memory:city", "Graz")
    ann.recall("city", entity=entity, force_refresh=True)
    ann.say(entity, "memory:city", "Vienna", source="agent:hr")
    told = ann.recall("city", entity=entity)
    if told["memory_card"] is None:
        assert told["card_stale"] is True
    else:
        assert "Vienna" in told["memory_card"]["markdown"]
    assert {"Graz", "Vienna"} == {one["value"]["v"] for one in told["results"]}
    forced = ann.recall("city", entity=entity, force_refresh=True)
    assert forced["card_stale"] is False
    assert forced["force_refresh_timeout"] is False
    assert {"Graz", "Vienna"} <= {w for w in ("Graz", "Vienna") if w in json.dumps(forced)}
    assert ann.recall("city", entity=entity, relation="memory:city")["memory_card"] is None


# §20.6: derivations


def test_20_6_1_hashes_are_checked_may_dangle_and_never_change(ann: Caller) -> None:
    body = {
        "entity": uri("d/x"), "relation": "memory:x", "value": {"type": "text", "v": "x"},
        "source": ann.name, "scope": "company",
    }  # fmt: skip
    for wrong in ("short", "AB" * 32 + "z", "sha256:zz", 5):
        ann.ask("POST", "/v1/facts", 422, json={**body, "derived_from": [wrong]})
    kept = ann.ask("POST", "/v1/facts", 201, json={**body, "derived_from": [ABSENT]})
    assert kept["derived_from"][0]["hash"] == f"sha256:{ABSENT}"
    changed = ann.ask("PATCH", f"/v1/facts/{kept['id']}", 422, json={"derived_from": []})
    assert changed["detail"]["code"] == "derived_from_immutable"


def test_20_6_1_a_cycle_is_refused(ann: Caller) -> None:
    first = ann.say(uri("d/a"), "memory:a", "first")
    second = ann.say(uri("d/b"), "memory:b", "second", derived_from=[first["cid"]])
    body = {
        "entity": uri("d/a"), "relation": "memory:a", "value": {"type": "text", "v": "first"},
        "source": ann.name, "scope": "company", "derived_from": [second["cid"]],
    }  # fmt: skip
    for method in ("POST", "PUT"):
        told = ann.ask(method, "/v1/facts", 400, json=body)
        assert told["detail"]["code"] == "provenance_cycle_detected"


def test_20_6_2_unreadable_facts_look_absent(ann: Caller, bob: Caller, garden: str) -> None:
    hidden = ann.say(uri("d/h"), "memory:h", "hidden parent", garden_id=garden)
    child = ann.say(uri("d/c"), "memory:c", "child", derived_from=[hidden["cid"], ABSENT])
    walked = bob.ask("GET", f"/v1/facts/{child['id']}/provenance")
    seen = {one["hash"]: {**one, "hash": ""} for one in walked["nodes"] if not one["exists"]}
    assert set(seen) == {hidden["cid"], f"sha256:{ABSENT}"}
    assert seen[hidden["cid"]] == seen[f"sha256:{ABSENT}"] == {"hash": "", "exists": False}
    root = bob.http.get(f"/v1/facts/{hidden['id']}/provenance")
    absent = bob.http.get("/v1/facts/00000000-0000-7000-8000-000000000000/provenance")
    assert (root.status_code, root.content) == (absent.status_code, absent.content)
    assert root.status_code in (403, 404)


def test_20_6_3_recall_tells_the_hashes_and_adds_parents_that_fit(ann: Caller) -> None:
    parent = ann.say(uri("d/p"), "memory:seen", "the walrus swam")
    child = ann.say(uri("d/k"), "memory:told", "a walrus can swim", derived_from=[parent["cid"]])
    told = {one["id"]: one for one in ann.recall("can a walrus swim")["results"]}
    assert told[child["id"]]["derived_from_hashes"] == [parent["cid"].removeprefix("sha256:")]
    assert parent["id"] in told


# §07: authorisation before anything else


def test_07_unreadable_facts_change_no_answer(ann: Caller, bob: Caller, garden: str) -> None:
    ann.say(uri("z/one"), "memory:note", "platypus facts are rare")
    before = bob.recall("platypus rare", track=False)
    for n in range(5):
        ann.say(uri(f"z/h{n}"), "memory:note", "platypus platypus rare", garden_id=garden)
    after = bob.recall("platypus rare", track=False)
    shown = ("total_scored", "tokens_used", "truncated", "warnings", "hint")
    assert [before[name] for name in shown] == [after[name] for name in shown]
    assert [one["id"] for one in before["results"]] == [one["id"] for one in after["results"]]
    mine = ann.recall("platypus rare", garden_id=garden)["results"]
    assert {one["entity"] for one in mine} >= {uri(f"z/h{n}") for n in range(5)}


def test_07_the_answer_has_its_shape(ann: Caller) -> None:
    ann.say(uri("z/shape"), "memory:note", "an okapi is shaped oddly")
    told = ann.recall("okapi shaped")
    assert datetime.fromisoformat(told["generated_at"]).utcoffset() is not None
    one = told["results"][0]
    assert one["entity"] == uri("z/shape")
    assert {"fact", "score", "why"} <= set(one)
    assert isinstance(one["why"], list)
    no_key = httpx.post(f"{ann.http.base_url}/v1/recall", json={"query": "x"})
    assert no_key.status_code == 401


# §20.1.7 and §20.6.4: facts from a peer


def test_20_1_7_and_6_4_facts_of_a_peer_are_edges_with_trust_and_keep_their_hashes(
    tmp_path: Path,
) -> None:
    env = {
        "STIGMEM_FEDERATION_ENABLED": "true",
        "STIGMEM_FEDERATION_INSECURE": "true",
        "STIGMEM_RECALL_TRACK_INTERVAL_S": "0.1",
    }
    left, right = tmp_path / "left", tmp_path / "right"
    for data in (left, right):
        create_key(data, ANN, "agent:ann", "read", "write")
        create_key(data, BOB, "agent:bob", "read", "write", "federate")
    with serving(left, env=env) as one, serving(right, env=env) as other:
        for here, there in ((one, other), (other, one)):
            shown = json.loads(engramlog("peer", "declaration", "--data", there.data).stdout)
            added = engramlog("peer", "add", there.url, "--data", here.data)
            assert added.returncode == 0, added.stderr
            approved = engramlog(
                "peer", "approve", shown["node_id"], "--data", here.data,
                "--fingerprint", shown["pubkey_fingerprint"],
            )  # fmt: skip
            assert approved.returncode == 0, approved.stderr
        with (
            Caller(one.url, ANN) as writer,
            Caller(other.url, ANN) as plain,
            Caller(other.url, BOB) as federating,
        ):
            fact = writer.say(uri("f/a"), "rel:knows", uri("f/b"), derived_from=[ABSENT])
            path = f"/v1/facts/{fact['id']}"
            until(lambda: plain.http.get(path).status_code != 404)
            came = plain.ask("GET", path)
            assert came["derived_from"] == fact["derived_from"]
            sql = "SELECT object, source_trust FROM entity_edges WHERE id = ?"
            ((target, trust),) = rows(other, sql, fact["id"])
            assert target == uri("f/b")
            assert 0 < trust < 1
            asked = {"entity": uri("f/a"), "scope": "company"}
            assert plain.ask("GET", "/v1/graph/neighbors", params=asked)["neighbors"] == []
            (edge,) = federating.ask("GET", "/v1/graph/neighbors", params=asked)["neighbors"]
            assert (edge["entity"], edge["source_trust"]) == (uri("f/b"), trust)
            writer.ask("POST", f"{path}/retract", json={})
            ended = "SELECT confidence FROM entity_edges WHERE id = ?"
            until(lambda: rows(other, ended, fact["id"]) == [(0.0,)])
