"""Provenance over HTTP: the walk, its hidden parts, and rejected cycles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engramlog.projections.authorization import Authorization
from engramlog.projections.graph.provenance import NODES_MAX, walk
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts import derivations
from tests.worlds.live import LiveNode, fact

ABSENT = "sha256:" + "f" * 64


def derived(live: LiveNode, name: str, *parents: Any, **more: Any) -> dict[str, Any]:
    """A fact of entity ``user:NAME`` that derives from others."""
    hashes = [each["cid"] if isinstance(each, dict) else each for each in parents]
    return live.state(entity=f"user:{name}", derived_from=hashes, **more)


def provenance(live: LiveNode, fact_id: str, *, key: str | None = None, **params: Any) -> Any:
    return live.call("GET", f"/v1/facts/{fact_id}/provenance", key=key, params=params)


def names(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(each["depth"], each["entity"]) for each in answer["nodes"] if each["exists"]]


def test_the_walk_goes_three_hops_or_as_deep_as_requested(live: LiveNode) -> None:
    chain = [live.state(entity="user:n0")]
    for n in range(1, 7):
        chain.append(derived(live, f"n{n}", chain[-1]))
    last = chain[6]["id"]
    assert names(provenance(live, last).json()) == [(n, f"user:n{6 - n}") for n in range(4)]
    for depth in range(1, 6):
        answer = provenance(live, last, depth=depth).json()
        assert (answer["depth"], answer["truncated"]) == (depth, False)
        assert names(answer) == [(n, f"user:n{6 - n}") for n in range(depth + 1)]
        assert answer["edges"] == [
            {"from": chain[6 - n]["cid"], "to": chain[5 - n]["cid"]} for n in range(depth)
        ]


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [({"depth": 6}, 400, "graph_depth_exceeded"), ({"depth": 0}, 422, None),
     ({"depth": "x"}, 422, None), ({"scope": "galaxy"}, 400, None)],
)  # fmt: skip
def test_a_walk_with_wrong_parameters_is_refused(
    live: LiveNode, params: dict[str, Any], status: int, code: str | None
) -> None:
    answer = provenance(live, live.state()["id"], **params)
    assert answer.status_code == status
    if code is not None:
        assert answer.json()["detail"]["code"] == code


def test_a_diamond_names_each_ancestor_once_and_every_link(live: LiveNode) -> None:
    top = live.state(entity="user:top")
    left, right = derived(live, "left", top), derived(live, "right", top, ABSENT)
    bottom = derived(live, "bottom", left, right)
    answer = provenance(live, bottom["id"]).json()
    assert names(answer) == [(0, "user:bottom"), (1, "user:left"), (1, "user:right"),
                             (2, "user:top")]  # fmt: skip
    assert answer["nodes"][4] == {"hash": ABSENT, "exists": False}
    links = [(each["from"], each["to"]) for each in answer["edges"]]
    assert links == [
        (bottom["cid"], left["cid"]), (bottom["cid"], right["cid"]),
        (left["cid"], top["cid"]), (right["cid"], top["cid"]), (right["cid"], ABSENT),
    ]  # fmt: skip


def test_the_past_knows_only_earlier_facts(live: LiveNode) -> None:
    parent = fact(entity="user:late")
    child = live.state(
        entity="user:early",
        derived_from=[live.call("POST", "/v1/facts", json=parent).json()["cid"]],
    )
    answer = provenance(live, child["id"], as_of=f"position:{child['position']}").json()
    assert [each["exists"] for each in answer["nodes"]] == [True, True]
    orphan = live.state(entity="user:orphan", derived_from=[ABSENT])
    assert provenance(live, orphan["id"]).json()["nodes"][1] == {"hash": ABSENT, "exists": False}
    before = child["position"] - 1
    assert provenance(live, child["id"], as_of=f"position:{before}").status_code == 404


def test_a_retracted_ancestor_stays_visible(live: LiveNode) -> None:
    parent = live.state(entity="user:p")
    child = derived(live, "c", parent)
    live.call("POST", f"/v1/facts/{parent['id']}/retract", json={})
    assert names(provenance(live, child["id"]).json()) == [(0, "user:c"), (1, "user:p")]


# -- rights ---------------------------------------------------------------------------------


def test_hidden_ancestors_are_absent_ones_in_every_byte(guarded: LiveNode) -> None:
    """Two children, one of a hidden family, one of no family: equal except for names and hashes."""
    wide = guarded.mint("read", "write", entity="stigmem://t/agent/a")
    narrow = guarded.mint("read", entity="agent:narrow", scopes=["public"])
    grandparent = guarded.state(key=wide, entity="user:g")
    parent = guarded.state(key=wide, entity="user:p", derived_from=[grandparent["cid"]])
    entry = {"hash": parent["cid"], "fact_id": parent["id"]}
    nothing = {"hash": ABSENT, "fact_id": "0" * 36}
    child, lonely = (
        guarded.state(key=wide, entity=name, scope="public", derived_from=[each])
        for name, each in (("user:c", entry), ("user:l", nothing))
    )
    seen, none = (
        provenance(guarded, each["id"], key=narrow, depth=5).text
        .replace(each["id"], "ID").replace(each["cid"], "CID").replace(each["entity"], "NAME")
        .replace(each["derived_from"][0]["hash"], "PARENT")
        for each in (child, lonely)
    )  # fmt: skip
    assert seen == none
    assert len(provenance(guarded, child["id"], key=wide, depth=5).json()["nodes"]) == 3
    own = provenance(guarded, child["id"], key=wide, depth=5, scope="public").json()
    assert own["nodes"][1] == {"hash": parent["cid"], "exists": False}
    assert provenance(guarded, parent["id"], key=wide, scope="public").status_code == 404
    assert provenance(guarded, parent["id"], key=narrow).content == (
        provenance(guarded, "0" * 36, key=narrow).content
    )


def test_the_walk_reads_no_row_of_a_hidden_ancestor(guarded: LiveNode) -> None:
    wide = guarded.mint("read", "write", entity="stigmem://t/agent/a")
    parent = guarded.state(key=wide, entity="user:p")
    child = guarded.state(key=wide, entity="user:c", scope="public", derived_from=[parent["cid"]])
    reader = guarded.node.reader
    view = reader.pin()
    asked: list[int] = []
    rows = reader.rows
    reader.rows = lambda positions: asked.extend(positions) or rows(positions)  # type: ignore[method-assign]
    try:
        narrow = Authorization("agent:n", frozenset({"read"}), frozenset({"public"}))
        root = rows([child["position"]])[0]
        walk(reader, view, root, narrow, Moment(view.position, 2**62), depth=5)
    finally:
        del reader.rows  # type: ignore[method-assign]
    assert parent["position"] not in asked


def test_a_garden_hides_like_a_scope(live: LiveNode) -> None:
    parent = live.state(entity="user:p")
    child = derived(live, "c", parent)
    reader = live.node.reader
    slot = reader.slot_of(parent["id"])
    image = reader.image
    image.facts.arrays["garden"][slot] = image.facts.gardens.add("g1")
    view = reader.pin()
    moment = Moment(view.position, 2**62)
    root = reader.rows([child["position"]])[0]
    outside = Authorization("agent:n", frozenset({"read"}), frozenset({"company"}))
    inside = Authorization(
        "agent:n", frozenset({"read"}), frozenset({"company"}), frozenset({"g1"})
    )
    shown = [
        walk(reader, view, root, rights, moment, depth=5).ancestors[1].row is not None
        for rights in (outside, inside)
    ]
    assert shown == [False, True]


# -- cycles ---------------------------------------------------------------------------------


def cid_of(live: LiveNode, **fields: Any) -> str:
    """The content id that a fact would have, from a temporary node."""
    record = live.state(**fields)
    return str(record["cid"])


def refused(live: LiveNode, **fields: Any) -> bool:
    answer = live.call("POST", "/v1/facts", json=fact(**fields))
    if answer.status_code == 201:
        return False
    assert answer.status_code == 400
    assert answer.json()["detail"]["code"] == "provenance_cycle_detected"
    return True


def test_a_later_fact_that_fills_a_dangling_hash_cannot_close_a_cycle(
    serve: Callable[..., LiveNode],
) -> None:
    scratch, live = serve(), serve()
    late = cid_of(scratch, entity="user:late")
    first = derived(live, "first", late)  # dangling: nothing has this hash yet
    second = derived(live, "second", first)
    assert refused(live, entity="user:late", derived_from=[second["cid"]])
    assert refused(live, entity="user:late", derived_from=[ABSENT, {"hash": first["cid"]}])
    assert refused(live, entity="user:late", derived_from=[late])
    filled = live.state(entity="user:late")
    assert filled["cid"] == late
    assert refused(live, entity="user:late", derived_from=[second["cid"]], write_mode="assert")
    total = live.call("GET", "/v1/facts", params={"scope": "company"}).json()["total"]
    assert total == 3, "nothing of a refused write is there"


def test_a_cycle_inside_one_batch_is_refused(serve: Callable[..., LiveNode]) -> None:
    scratch, live = serve(), serve()
    one, two = cid_of(scratch, entity="user:one"), cid_of(scratch, entity="user:two")
    items = [
        fact(entity="user:one", derived_from=[two]),
        fact(entity="user:two", derived_from=[one]),
    ]
    answer = live.call("POST", "/v1/facts/batch", json=items).json()
    assert [each["status"] for each in answer["results"]] == [201, 400]


def test_new_content_may_have_any_number_of_ancestors(live: LiveNode) -> None:
    middle: list[dict[str, Any]] = []
    for n in range(11):
        hashes = [f"{n:032x}{k:032x}" for k in range(1_000)]
        middle.append(live.state(entity=f"user:m{n}", derived_from=hashes))
    child = live.state(entity="user:c", derived_from=[each["cid"] for each in middle])
    # Content that others derive from is followed to all its ancestors, and these are too many.
    assert refused(live, entity="user:m0", derived_from=[child["cid"]], write_mode="assert")
    late = live.state(entity="user:late", derived_from=[child["cid"]])
    assert late["derived_from"] == [{"hash": child["cid"]}]


def test_links_stay_as_given_and_never_change(live: LiveNode) -> None:
    parent = live.state(entity="user:p")
    bare = parent["cid"].removeprefix("sha256:")
    given = [ABSENT, {"hash": bare, "fact_id": parent["id"]}, parent["cid"], bare]
    child = live.state(entity="user:c", derived_from=given)
    assert child["derived_from"] == [
        {"hash": ABSENT}, {"fact_id": parent["id"], "hash": parent["cid"]},
        {"hash": parent["cid"]}, {"hash": parent["cid"]},
    ]  # fmt: skip
    answer = live.call("PATCH", f"/v1/facts/{child['id']}", json={"derived_from": []})
    assert (answer.status_code, answer.json()["detail"]["code"]) == (422, "derived_from_immutable")
    again = live.call("GET", f"/v1/facts/{child['id']}").json()
    assert again["derived_from"] == child["derived_from"]
    for wrong in (["F" * 64], ["a" * 63], [{"fact_id": "x"}], [7], "a" * 64):
        answer = live.call("POST", "/v1/facts", json=fact(derived_from=wrong))
        assert answer.status_code == 422
        assert "derived_from" in answer.json()["detail"][0]["loc"]


def test_a_fact_with_too_many_ancestors_says_so(live: LiveNode) -> None:
    middle: list[dict[str, Any]] = []
    for n in range(6):
        hashes = [f"{n:032x}{k:032x}" for k in range(1_000)]
        middle.append(live.state(entity=f"user:m{n}", derived_from=hashes))
    child = derived(live, "c", *middle)
    answer = provenance(live, child["id"], depth=2).json()
    assert answer["truncated"] is True
    assert len(answer["nodes"]) == NODES_MAX
    known = {each["hash"] for each in answer["nodes"]}
    assert all(each["to"] in known for each in answer["edges"])
    assert np.unique([each["hash"] for each in answer["nodes"]]).size == NODES_MAX


@pytest.mark.parametrize(("parents", "too_many"), [(3, False), (6, True)])
def test_a_walk_over_too_many_links_counts_as_a_cycle(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch, parents: int, too_many: bool
) -> None:
    monkeypatch.setattr(derivations, "WALK_LINKS_MAX", 5)
    scratch, live = serve(), serve()
    late = cid_of(scratch, entity="user:late")
    derived(live, "child", late)  # so content ``late`` is walked
    wide = derived(live, "wide", *(f"sha256:{n:064x}" for n in range(parents)))
    assert refused(live, entity="user:late", derived_from=[wide["cid"]]) is too_many
