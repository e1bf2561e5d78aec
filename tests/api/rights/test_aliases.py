"""Aliases over HTTP: the meaning of a name in writes, in every kind of query, and in the past."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.live import LiveNode, fact

ALICE = "stigmem://ex.example/user/alice"


def alias(node: LiveNode, raw: str, canonical: str, **options: Any) -> Any:
    body = {"raw_uri": raw, "canonical_uri": canonical, **options.pop("more", {})}
    return node.call("POST", "/v1/aliases", json=body, **options)


def head(node: LiveNode) -> int:
    return node.node.log.head().position


def test_the_record_is_the_protocols(live: LiveNode) -> None:
    made = alias(live, " User:AL ", "STIGMEM://ex.example/User/Alice")
    assert made.status_code == 201
    record = made.json()
    assert list(record) == ["raw_uri", "canonical_uri", "kind", "created_at"]
    assert (record["raw_uri"], record["canonical_uri"]) == ("user:al", ALICE)
    assert record["kind"] == "user"
    assert live.call("GET", "/v1/aliases").json() == [record]
    position = head(live)
    assert alias(live, "user:al", ALICE).json() == record  # no change, so no write
    assert head(live) == position
    assert live.call("DELETE", "/v1/aliases/user:al").status_code == 204
    assert live.call("GET", "/v1/aliases").json() == []
    gone = live.call("DELETE", "/v1/aliases/user:al")
    assert (gone.status_code, gone.json()) == (404, {"detail": "alias not found"})


def test_uris_in_the_path_work_unescaped(live: LiveNode) -> None:
    alias(live, "stigmem://ex.example/user/al", ALICE)
    assert live.call("DELETE", "/v1/aliases/stigmem://ex.example/user/al").status_code == 204


def test_every_question_finds_the_entity_by_its_other_name(live: LiveNode) -> None:
    alias(live, "user:al", ALICE)
    stated = live.state(entity="user:Al", relation="memory:role", v="CEO", scope="local")
    assert stated["entity"] == ALICE
    friend = live.state(
        entity="user:bo", relation="rel:knows", type="ref", v="user:al", scope="local"
    )
    assert friend["value"]["v"] == ALICE
    ask = {"entity": "user:al"}
    assert [f["id"] for f in live.call("GET", "/v1/facts", params=ask).json()["facts"]] == [
        stated["id"]
    ]
    around = live.call("GET", "/v1/graph/neighbors", params={**ask, "scope": "local"}).json()
    assert around["entity"] == ALICE
    assert [each["entity"] for each in around["neighbors"]] == ["user:bo"]
    assert live.call("GET", "/v1/cards/user:al").json()["entity_uri"] == ALICE
    recalled = live.call("POST", "/v1/recall", json={"query": "role", **ask}).json()
    assert stated["id"] in [item["fact"]["id"] for item in recalled["facts"]]
    life = live.call("GET", "/v1/time-travel/entities/user:al").json()
    assert life["entity"] == ALICE
    changed = live.call("GET", "/v1/time-travel/diff", params={**ask, "from": "position:1"}).json()
    assert changed["counts"]["added"] == 1
    lint = live.call("POST", "/v1/lint", json={"scope": "local", **ask}).json()
    assert {finding["entity"] for finding in lint["findings"]} <= {ALICE}


def test_the_past_uses_the_names_of_the_past(live: LiveNode) -> None:
    before = live.state(entity="user:al", v="old")
    then = head(live)
    made = alias(live, "user:al", ALICE).json()
    assert made["warnings"] == [
        "1 facts are under 'user:al'; asking for that name no longer finds them"
    ]
    after = live.state(entity="user:al", v="new")

    def found(**more: Any) -> list[str]:
        answer = live.call("GET", "/v1/facts", params={"entity": "user:al", **more}).json()
        return [fact["id"] for fact in answer["facts"]]

    assert found() == [after["id"]]
    assert found(as_of=f"position:{then}") == [before["id"]]
    assert live.call("GET", "/v1/aliases", params={"as_of": f"position:{then}"}).json() == []
    live.call("DELETE", "/v1/aliases/user:al")
    assert found() == [before["id"]]


def test_a_source_has_no_other_name(live: LiveNode) -> None:
    alias(live, "agent:me", "agent:boss")
    assert live.state(source="agent:me")["source"] == "agent:me"


def test_chains_resolve_and_cycles_are_refused(live: LiveNode) -> None:
    alias(live, "user:a", "user:b")
    alias(live, "user:b", "user:c")
    assert live.state(entity="user:a")["entity"] == "user:c"
    refused = alias(live, "user:c", "user:a")
    assert (refused.status_code, refused.json()["detail"]["code"]) == (409, "alias_cycle")
    itself = alias(live, "user:x", "User:X")
    assert itself.status_code == 400
    assert itself.json()["detail"] == "raw_uri and canonical_uri must differ"
    assert alias(live, "user:b", "user:d").status_code == 201  # replaced
    assert live.state(entity="user:a")["entity"] == "user:d"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"raw_uri": "user:a"}, 422),
        ({"raw_uri": "", "canonical_uri": "user:a"}, 422),
        ({"raw_uri": " ", "canonical_uri": "user:a"}, 400),
        ({"raw_uri": "stigmem:conflict:x", "canonical_uri": "user:a"}, 422),
        ({"raw_uri": "user:a", "canonical_uri": "stigmem:conflict:x"}, 422),
        ({"raw_uri": "user:a", "canonical_uri": "user:b", "kind": "other"}, 422),
    ],
)
def test_bad_input_changes_nothing(refusing: LiveNode, body: dict[str, Any], status: int) -> None:
    position = head(refusing)
    assert refusing.call("POST", "/v1/aliases", json=body).status_code == status
    assert head(refusing) == position


def test_only_keys_for_all_scopes_set_aliases_and_only_admins_migrations(
    serve: Callable[..., LiveNode],
) -> None:
    node = serve(auth_required=True)
    write, narrow = node.mint("write"), node.mint("write", entity="agent:n", scopes=["local"])
    admin = node.mint("read", "write", "admin", entity="agent:admin")
    refused = alias(node, "user:a", "user:b", key=narrow)
    assert (refused.status_code, refused.json()["detail"]["code"]) == (403, "scope_forbidden")
    assert node.call("DELETE", "/v1/aliases/user:a", key=narrow).status_code == 403
    assert alias(node, "user:a", "user:b", key=node.mint("read")).status_code == 403
    migration = {"more": {"kind": "migration"}}
    assert alias(node, "user:a", "user:b", key=write, **migration).status_code == 403
    assert alias(node, "user:a", "user:b", key=admin, **migration).json()["kind"] == "migration"
    for refused in (
        alias(node, "user:a", "user:c", key=write),
        node.call("DELETE", "/v1/aliases/user:a", key=write),
    ):
        assert (refused.status_code, refused.json()["detail"]["code"]) == (
            403,
            "alias_is_migration",
        )
    assert node.call("DELETE", "/v1/aliases/user:a", key=admin).status_code == 204


def test_a_page_of_aliases_continues_after_a_name(live: LiveNode) -> None:
    for n in range(5):
        alias(live, f"user:n{n}", "user:x")
    first = live.call("GET", "/v1/aliases", params={"limit": 3}).json()
    assert [each["raw_uri"] for each in first] == ["user:n0", "user:n1", "user:n2"]
    rest = live.call("GET", "/v1/aliases", params={"limit": 3, "after": "user:n2"}).json()
    assert [each["raw_uri"] for each in rest] == ["user:n3", "user:n4"]


def resolved(node: LiveNode, uri: str, **params: Any) -> dict[str, Any]:
    answer = node.call("GET", "/v1/entities/resolve", params={"uri": uri, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_resolving_an_unknown_name_is_as_in_the_protocol(live: LiveNode) -> None:
    """``stigmem-examples.json``, "resolve entity"."""
    name = "stigmem://ex.example/user/alise"
    assert resolved(live, name) == {
        "query": name,
        "canonical": name,
        "best": name,
        "resolution_layer": None,
        "layer1_match": False,
        "layer2_match": None,
        "layer3_candidates": [],
    }


def test_a_name_means_itself_or_its_alias_or_the_most_similar_one(live: LiveNode) -> None:
    live.state(entity=ALICE)
    live.state(entity="stigmem://ex.example/user/bob")
    live.state(entity="user:alice")
    known = resolved(live, "STIGMEM://ex.example/User/Alice")
    assert (known["resolution_layer"], known["layer1_match"], known["best"]) == (1, True, ALICE)
    like = resolved(live, "stigmem://ex.example/user/alise")
    # «alise» and «alice» share «ali» and «e»: 2 · 4 / 10; a tenth less in another place.
    assert like["layer3_candidates"] == [
        {"uri": ALICE, "score": 0.8},
        {"uri": "user:alice", "score": 0.72},
    ]
    assert (like["resolution_layer"], like["best"]) == (3, ALICE)
    assert like["canonical"] == "stigmem://ex.example/user/alise"
    assert resolved(live, "user:alise", top_k=1)["best"] == "user:alice"
    assert resolved(live, "user:alise", threshold=0.9)["layer3_candidates"] == []
    alias(live, "user:al", ALICE)
    other = resolved(live, "user:al")
    assert (other["resolution_layer"], other["layer2_match"], other["best"]) == (2, ALICE, ALICE)
    assert other["canonical"] == ALICE
    assert other["layer1_match"] is False


def test_an_entity_known_only_from_refs_is_known_too(live: LiveNode) -> None:
    live.state(entity="user:bo", relation="rel:knows", type="ref", v=ALICE)
    assert resolved(live, ALICE)["layer1_match"] is True


def test_names_out_of_reach_are_unknown(serve: Callable[..., LiveNode]) -> None:
    node = serve(auth_required=True)
    node.state(key=node.mint("write"), entity=ALICE, scope="team")
    key = node.mint("read", entity="agent:local", scopes=["local"])
    answer = node.call("GET", "/v1/entities/resolve", key=key, params={"uri": ALICE}).json()
    assert (answer["layer1_match"], answer["layer3_candidates"]) == (False, [])
    for bad in ({"uri": ""}, {}, {"uri": ALICE, "top_k": 51}, {"uri": ALICE, "threshold": 2}):
        refused = node.call("GET", "/v1/entities/resolve", key=key, params=bad)
        assert refused.status_code == 422


def test_aliases_survive_a_restart_and_a_rebuild(serve: Callable[..., LiveNode]) -> None:
    node = serve()
    alias(node, "user:al", ALICE)
    report = node.node.rebuild(lambda _done, _total: None)
    assert report is not None
    assert node.state(entity="user:al")["entity"] == ALICE
    assert node.call("POST", "/v1/facts", json=fact(entity="user:al")).json()["entity"] == ALICE


def test_aliases_are_listed_by_kind_and_by_entity(live: LiveNode) -> None:
    alias(live, "user:al", "user:alice")
    alias(live, "user:ally", "user:alice")
    alias(live, "user:bo", "user:bob")

    def listed(query: str) -> list[str]:
        return [row["raw_uri"] for row in live.call("GET", f"/v1/aliases?{query}").json()]

    assert listed("canonical_uri=User:Alice") == ["user:al", "user:ally"]
    assert listed("kind=user") == ["user:al", "user:ally", "user:bo"]
    assert listed("kind=migration") == []
    bogus = live.call("GET", "/v1/aliases?kind=bogus")
    assert bogus.status_code == 400
    assert "kind must be one of" in bogus.json()["detail"]
