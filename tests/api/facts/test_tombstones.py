"""Tombstones over HTTP: their effect, from whom they hide, since when, and their end."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from engramlog.api.answers.erasure_records import tombstone_record
from engramlog.api.node.node import Node
from engramlog.api.transfer.exporting import export_lines
from engramlog.api.transfer.importing import Importer, Options, RefusedLine
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.facts.tombstones import tombstones_in_force
from engramlog.replay.federation.declaration import wire_key
from engramlog.replay.stigmem.tombstones import holds
from tests.worlds.histories import asserted
from tests.worlds.live import LiveNode
from tests.worlds.provider_servers import serving
from tests.worlds.tombstone_requests import ALICE, BOB, admin, bury, ids, listed, revoke
from tests.worlds.word_vectors import embedded, settings_for, words_api

SECRET = "zanzibar quokka"


def test_the_record_is_the_protocols_and_its_signature_holds(live: LiveNode) -> None:
    made = bury(live, "stigmem://T.Example/user/Alice", reason="asked for", legal_hold=True)
    assert list(made) == [
        "id", "entity_uri", "scope", "reason", "signed_by", "key_id", "signature", "created_at",
        "legal_hold",
    ]  # fmt: skip
    assert made["id"].startswith("tomb_")
    assert (made["entity_uri"], made["scope"]) == (ALICE, "all")
    assert (made["reason"], made["legal_hold"]) == ("asked for", True)
    key = wire_key(live.node.identity.public_key_b64)
    assert holds(key, made)
    assert holds(key, made | {"reason": "struck out"})
    assert not holds(key, made | {"entity_uri": BOB})


def test_a_hidden_entity_comes_back_unchanged(live: LiveNode) -> None:
    hidden = live.state(v=SECRET)
    other = live.state(entity=BOB, v="tea")
    edge = live.state(entity=BOB, relation="rel:knows", type="ref", v=ALICE)
    before = listed(live)
    assert ids(before) == {hidden["id"], other["id"], edge["id"]}
    one = live.call("GET", f"/v1/facts/{hidden['id']}").content
    stone = bury(live)
    page = listed(live)
    assert ids(page) == {other["id"]}
    assert page["total"] == 1
    for fact in (hidden, edge):
        gone = live.call("GET", f"/v1/facts/{fact['id']}")
        absent = live.call("GET", "/v1/facts/00000000-0000-7000-8000-000000000000")
        assert (gone.status_code, gone.json()) == (404, absent.json())
        assert live.call("GET", f"/v1/facts/{fact['cid']}").status_code == 404
        assert live.call("POST", f"/v1/facts/{fact['id']}/retract", json={}).status_code == 404
    assert live.call("GET", f"/v1/cards/{ALICE}", params={"scope": "company"}).status_code == 404
    asked = {"entity": BOB, "scope": "company"}
    assert live.call("GET", "/v1/graph/neighbors", params=asked).json()["neighbors"] == []
    recalled = live.call("POST", "/v1/recall", json={"query": SECRET, "scope": "company"}).json()
    assert SECRET not in str(recalled["results"])
    ended = revoke(live, stone["id"])
    assert ended.status_code == 200
    assert list(ended.json()) == [
        "id", "tombstone_id", "signed_by", "key_id", "created_at", "reason", "signature",
    ]  # fmt: skip
    assert holds(wire_key(live.node.identity.public_key_b64), ended.json())
    assert listed(live) == before
    assert live.call("GET", f"/v1/facts/{hidden['id']}").content == one


def test_the_past_hides_it_as_well_and_shows_it_again(live: LiveNode) -> None:
    hidden = live.state(v=SECRET)
    head = f"position:{hidden['position']}"
    then = listed(live, as_of=head)
    assert ids(then) == {hidden["id"]}
    stone = bury(live)
    assert listed(live, as_of=head)["facts"] == []
    body = {"query": SECRET, "scope": "company", "as_of": head}
    assert live.call("POST", "/v1/recall", json=body).json()["results"] == []
    buried = f"position:{live.node.log.head().position}"
    revoke(live, stone["id"])
    assert listed(live, as_of=head) == then
    # Present tombstones decide: not even the moment of the tombstone is visible now.
    assert ids(listed(live, as_of=buried)) == {hidden["id"]}


def test_one_scope_hides_in_one_scope(live: LiveNode) -> None:
    company, team = live.state(v="a"), live.state(v="b", scope="team")
    bury(live, scope="team")
    assert ids(listed(live)) == {company["id"]}
    bury(live, scope="company")
    assert ids(listed(live)) == set()
    assert bury(live)["scope"] == "all"
    assert team["scope"] == "team"


def test_later_writes_are_hidden_too(live: LiveNode) -> None:
    bury(live)
    made = live.state(v=SECRET)
    again = live.state(v=SECRET)
    assert made["id"] != again["id"]  # stating a hidden fact again does not reveal it
    assert again["contradicted"] is False
    assert live.state(v="other")["contradicted"] is False
    assert listed(live)["facts"] == []


def test_an_entity_that_a_batch_creates_is_hidden(live: LiveNode) -> None:
    bury(live)
    live.node.write(*(asserted(ALICE, f"memory:r{n}", scope="company") for n in range(3)))
    assert listed(live)["facts"] == []
    bury(live, BOB)
    live.node.write(  # as the object of a reference, among others
        asserted("user:c", "rel:knows", Value("ref", BOB), scope="company"),
        asserted("user:d", scope="company"),
    )
    assert {each["entity"] for each in listed(live)["facts"]} == {"user:d"}


def test_the_note_of_a_resolution_is_hidden_with_its_facts(live: LiveNode) -> None:
    one, _ = live.state(v=SECRET), live.state(v="other")
    (conflict,) = live.call("GET", "/v1/conflicts").json()["conflicts"]
    body = {"winning_fact_id": one["id"]}
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    note = live.call("POST", path, json=body).json()["resolution_fact_id"]
    bury(live, scope="team")  # not where the facts are
    assert SECRET in str(listed(live, entity=f"stigmem:resolution:{conflict['conflict_id']}"))
    bury(live)
    assert live.call("GET", f"/v1/facts/{note}").status_code == 404
    assert (
        live.call("GET", "/v1/conflicts", params={"status": "resolved"}).json()["conflicts"] == []
    )
    assert live.call("POST", path, json=body).status_code == 404
    assert listed(live)["facts"] == []


def test_admins_see_which_tombstones_hide_facts(guarded: LiveNode) -> None:
    writer = guarded.mint("read", "write", entity="agent:a")
    guarded.state(v=SECRET, key=writer)
    guarded.state(entity=BOB, v="tea", key=writer)
    stone = bury(guarded, legal_hold=True)
    notice = {
        "entity_uri": ALICE,
        "tombstone_id": stone["id"],
        "tombstone_created_at": stone["created_at"],
        "legal_hold": True,
    }
    for params, told in (({}, [notice]), ({"entity": ALICE}, [notice]), ({"entity": BOB}, [])):
        page = admin(guarded, "GET", "/v1/facts", params=params).json()
        assert page["tombstone_notices"] == told
        mine = guarded.call("GET", "/v1/facts", key=writer, params=params).json()
        assert mine["tombstone_notices"] == []
        assert isinstance(mine["total"], int)
    for query, told in ((SECRET, [notice]), ("something else", [])):
        body = {"query": query, "scope": "company"}
        answer = admin(guarded, "POST", "/v1/recall", json=body).json()
        assert answer["tombstone_notices"] == told
        mine = guarded.call("POST", "/v1/recall", key=writer, json=body).json()
        assert mine["tombstone_notices"] == []
    within = {"query": SECRET, "scope": "local"}
    assert admin(guarded, "POST", "/v1/recall", json=within).json()["tombstone_notices"] == []


def test_status_shows_every_past_tombstone(live: LiveNode) -> None:
    path = f"/v1/tombstones/{ALICE}"
    assert admin(live, "GET", path).json() == {
        "tombstoned": False, "tombstones": [], "revocations": [],
    }  # fmt: skip
    stone = bury(live)
    assert admin(live, "GET", f"/v1/tombstones/{quote(ALICE, safe='')}").json() == {
        "tombstoned": True, "tombstones": [stone], "revocations": [],
    }  # fmt: skip
    ended = revoke(live, stone["id"]).json()
    told = admin(live, "GET", path).json()
    assert (told["tombstoned"], told["tombstones"]) == (False, [stone])
    assert [each["id"] for each in told["revocations"]] == [ended["id"]]
    later = bury(live)
    page = admin(live, "GET", "/v1/tombstones", params={"limit": 1}).json()
    assert [(each["id"], each["stands"]) for each in page["tombstones"]] == [(later["id"], True)]
    rest = admin(live, "GET", "/v1/tombstones", params={"before": page["before"]}).json()
    assert [(each["id"], each["stands"]) for each in rest["tombstones"]] == [(stone["id"], False)]
    assert rest["before"] is None


def test_bad_input_changes_nothing(live: LiveNode) -> None:
    stone = bury(live)
    head = live.node.log.head().position
    for body, status, detail in (
        ({"entity_uri": BOB, "scope": "galaxy"}, 400, "tombstone_invalid_scope"),
        ({"entity_uri": "nobody"}, 400, "tombstone_entity_uri_invalid"),
        ({"entity_uri": ""}, 400, "tombstone_entity_uri_invalid"),
        ({"entity_uri": "user:a\nb"}, 400, "tombstone_entity_uri_invalid"),
        ({"entity_uri": "user:" + "x" * 5000}, 400, "tombstone_entity_uri_invalid"),
        ({"entity_uri": ALICE}, 409, "tombstone_already_exists"),
        ({"entity_uri": ALICE, "scope": "*"}, 409, "tombstone_already_exists"),
    ):
        answer = admin(live, "POST", "/v1/tombstones", json=body)
        assert (answer.status_code, answer.json()) == (status, {"detail": detail}), body
    for body, code in (
        ({"entity_uri": BOB, "erase": True, "legal_hold": True}, "erasure_beside_hold"),
        ({"entity_uri": BOB, "erase": True, "scope": "team"}, "erasure_of_one_scope"),
    ):
        answer = admin(live, "POST", "/v1/tombstones", json=body)
        assert (answer.status_code, answer.json()["detail"]["code"]) == (422, code)
    for body in ({}, {"entity_uri": 5}, {"entity_uri": BOB, "legal_hold": "yes"}):
        assert admin(live, "POST", "/v1/tombstones", json=body).status_code == 422
    absent = revoke(live, "tomb_none")
    assert (absent.status_code, absent.json()) == (404, {"detail": "tombstone_not_found"})
    path = f"/v1/tombstones/{stone['id']}/revoke"
    assert admin(live, "POST", path, json={}).status_code == 422
    assert live.node.log.head().position == head
    assert revoke(live, stone["id"]).status_code == 200
    twice = revoke(live, stone["id"])
    assert (twice.status_code, twice.json()) == (409, {"detail": "tombstone_already_revoked"})


def test_only_admins_of_the_scopes_may(guarded: LiveNode) -> None:
    stone = bury(guarded)
    reader = guarded.mint("read", "write", "federate", entity="agent:reader")
    some = guarded.mint("read", "admin", entity="agent:some", scopes=["team"])
    for method, path, body in (
        ("POST", "/v1/tombstones", {"entity_uri": BOB}),
        ("GET", "/v1/tombstones", None),
        ("GET", f"/v1/tombstones/{ALICE}", None),
        ("POST", f"/v1/tombstones/{stone['id']}/revoke", {"reason": "x"}),
    ):
        assert guarded.call(method, path, key=reader, json=body).status_code == 403
        if method == "POST":
            answer = guarded.call(method, path, key=some, json=body)
            assert answer.json()["detail"]["code"] == "scope_forbidden"
    made = guarded.call(
        "POST", "/v1/tombstones", key=some, json={"entity_uri": BOB, "scope": "team"}
    )
    assert made.status_code == 201


def test_a_tombstone_can_erase(live: LiveNode) -> None:
    hidden = live.state(v=SECRET)
    made = bury(live, erase=True, wait=True)
    assert made["erasure"]["status"] == "clean"
    assert made["erasure"]["fact_ids"] == [hidden["id"]]
    assert admin(live, "GET", f"/v1/facts/{hidden['id']}").status_code == 410
    revoke(live, made["id"])
    assert listed(live)["facts"] == []
    assert bury(live, "user:nobody", erase=True).get("erasure") is None


def test_a_hold_of_a_tombstone_forbids_erasing(live: LiveNode) -> None:
    hidden = live.state(v=SECRET)
    stone = bury(live, legal_hold=True, reason="a lawsuit")
    (hold,) = admin(live, "GET", "/v1/legal-holds").json()["holds"]
    assert (hold["target_kind"], hold["target"]) == ("entity", ALICE)
    assert (hold["reason"], hold["tombstone_id"]) == ("a lawsuit", stone["id"])
    refused = admin(live, "POST", "/v1/erasures", json={"entity": ALICE})
    assert (refused.status_code, refused.json()["detail"]["code"]) == (423, "legal_hold")
    revoke(live, stone["id"])
    assert admin(live, "GET", "/v1/legal-holds").json()["holds"] == []
    body = {"fact_ids": [hidden["id"]]}
    assert admin(live, "POST", "/v1/erasures", json=body).status_code == 202


def test_a_restart_and_a_rebuild_know_the_same(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        live.state(v=SECRET)
        one = live.state(v="other")
        kept = live.state(entity=BOB, v="tea")
        (conflict,) = live.call("GET", "/v1/conflicts").json()["conflicts"]
        path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
        live.call("POST", path, json={"winning_fact_id": one["id"]})
        bury(live)
        bury(live, "user:later")
        stone = bury(live, BOB)
        revoke(live, stone["id"])
        bury(live, BOB, scope="team")
        seen = listed(live)
        assert ids(seen) == {kept["id"]}
        assert live.node.rebuild().compared
        assert listed(live) == seen
    finally:
        live.close()
    again = LiveNode(tmp_path / "data")
    try:
        assert listed(again) == seen
        again.state(entity="user:later", v=SECRET)
        assert listed(again) == seen
    finally:
        again.close()


def test_an_imported_export_hides_the_same_facts(live: LiveNode, tmp_path: Path) -> None:
    live.state(v=SECRET)
    live.state(v="kept", entity=BOB)
    ended = bury(live, BOB, scope="team")
    revoke(live, ended["id"])
    stone = bury(live, reason="asked for", legal_hold=True)
    live.state(v="afterwards")
    lines = [line for _, line in export_lines(live.node.log)]
    clock = FixedClock(live.node.clock.now_us())
    copy = Node.open(tmp_path / "copy", clock=clock, epoch_clock="file")
    try:
        sink = NodeSink(copy, 262_144, clock=clock)
        report = Importer(sink, Options(file_clock=True), decode_line).run(iter(lines))
        assert report.failed == 0
        view = copy.reader.pin()
        hidden = view.hidden()
        assert hidden is not None
        assert hidden.tolist() == [True, False, True]
        (row,) = copy.reader.ask(tombstones_in_force)
        assert (row.entity, row.scope, row.reason, row.legal_hold) == (
            ALICE,
            "all",
            "asked for",
            True,
        )
        assert row.tombstone_id != stone["id"]
        assert holds(
            wire_key(copy.identity.public_key_b64), msgspec.structs.asdict(tombstone_record(row))
        )
        old, ends = copy.reader.tombstones_of(BOB)
        assert [(each.scope, each.in_force) for each in old] == [("team", False)]
        assert [each.reason for each in ends] == ["a mistake"]
    finally:
        copy.close()


def test_a_line_without_a_tombstone_is_refused(live: LiveNode) -> None:
    sink = NodeSink(live.node, 262_144)
    for body, field in (
        ({"entity": BOB, "revoke": True}, "entity"),
        ({"entity": BOB, "scope": "galaxy"}, "scope"),
        ({"entity": " "}, "entity"),
    ):
        line = decode_line(msgspec.json.encode({"op": "tombstone", **body}))
        (result,) = sink.write([line], received_at=None, atomic=False)
        assert isinstance(result, RefusedLine)
        assert result.field == field


def test_subscribers_get_nothing_of_a_hidden_entity(live: LiveNode) -> None:
    made = live.call(
        "POST",
        "/v1/subscriptions",
        json={"target": "company", "on_change": "wake", "delivery_address": "agent:me"},
    )
    path = f"/v1/subscriptions/{made.json()['id']}/events"
    live.state(v=SECRET)
    live.state(entity=BOB, relation="rel:knows", type="ref", v=ALICE)
    kept = live.state(entity=BOB, v="tea")
    told = live.call("GET", path).json()
    assert SECRET in str(told)
    stone = bury(live)
    live.state(v=SECRET, relation="memory:later")
    told = live.call("GET", path).json()
    assert {each["entity_uri"] for each in told["events"]} == {BOB}
    assert {each["fact_id"] for each in told["events"] if each["fact_id"]} == {kept["id"]}
    revoke(live, stone["id"])
    assert SECRET in str(live.call("GET", path).json())


@pytest.fixture
def embedding(tmp_path: Path) -> Iterator[LiveNode]:
    """A node that embeds with the words of a text."""
    with serving(words_api) as server:
        node = LiveNode(tmp_path / "embedding", **settings_for(server))
        node.node.embed(node.settings.embedding)
        try:
            yield node
        finally:
            node.close()


def test_neither_meaning_nor_card_finds_a_hidden_entity(embedding: LiveNode) -> None:
    live = embedding
    for number in range(5):
        live.state(v=f"{SECRET} {number}", relation=f"memory:r{number}")
    kept = live.state(entity=BOB, v="zanzibar tea")
    embedded(live)
    asked = [
        {"query": SECRET, "scope": "company", "profile": profile, "min_confidence": 0.0, **more}
        for profile in ("default", "stigmem", "stargraph", "abmind")
        for more in ({}, {"entity": ALICE})
    ]
    before = [live.call("POST", "/v1/recall", json=body).json() for body in asked]
    assert all("quokka" in str(answer["facts"]) for answer in before)
    stone = bury(live)
    for body in asked:
        answer = live.call("POST", "/v1/recall", json=body).json()
        assert "quokka" not in str([answer["facts"], answer["memory_card"]]), body
        facts = [each["fact"] for each in answer["facts"]]
        assert {fact["entity"] for fact in facts} <= {BOB}, body
        assert {fact["id"] for fact in facts if "card" not in fact["relation"]} <= {kept["id"]}
    revoke(live, stone["id"])
    after = [live.call("POST", "/v1/recall", json=body).json() for body in asked]
    shown = [{each["fact"]["id"] for each in answer["facts"]} for answer in after]
    assert shown == [{each["fact"]["id"] for each in answer["facts"]} for answer in before]
