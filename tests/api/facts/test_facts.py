"""Stating, looking up and retracting facts over HTTP."""

import json

import pytest
from msgspec import convert
from stigmem.models import Fact
from stigmem.verification import verify_fact_cid

from engramlog.api.answers.fact_record import FactRecord
from tests.worlds.live import CONTROL_TOKEN, FACT_NOT_FOUND, LiveNode, fact

KEYS = [
    "id", "entity", "relation", "value", "source", "timestamp", "hlc", "received_from",
    "valid_until", "confidence", "scope", "attested_key_id", "origin_node_id",
    "origin_allowed_scopes", "garden_id", "attested", "contradicted", "warnings", "source_trust",
    "quarantine_status", "quarantine_garden_id", "effective_confidence", "sanitizer_warnings",
    "sanitizer_redacted", "cid", "derived_from", "valid_from", "position",
]  # fmt: skip
VECTOR = "sha256:76191e94e58909f694bb0eca903a71d4ddda19c5490da44b75e62b11e5e30ae4"
SECOND_VECTOR = "sha256:62239ba03781d3bd3f9a82d2b7a538f5e076b92166c1bd22773149e2bbd49848"


def post(live: LiveNode, **fields: object) -> object:
    return live.call("POST", "/v1/facts", json=fact(**fields))


def test_a_record_has_the_protocols_keys_in_the_protocols_order(live: LiveNode) -> None:
    record = live.state()
    assert list(record) == KEYS
    convert(record, FactRecord)


def test_the_cid_test_vectors_of_the_protocol_hold(live: LiveNode) -> None:
    record = live.state(entity="stigmem://t.example/user/Alice Smith", scope="local")
    assert record["cid"] == VECTOR
    second = live.state(
        entity="stigmem://t/s/40c4c7-public", relation="memory:x", v="public", scope="public"
    )
    assert second["cid"] == SECOND_VECTOR


def test_any_white_space_in_names_becomes_a_hyphen(live: LiveNode) -> None:
    record = live.state(entity=" user:Alice\t\nSmith\r\n", source="agent:the\u00a0\x0bfirst")
    assert record["entity"] == "user:alice-smith"
    assert record["source"] == "agent:the-first"
    for field, given in (("entity", "a\x07 b"), ("source", "a\x1b[1m b"), ("relation", "a\tb")):
        answer = live.call("POST", "/v1/facts", json=fact(**{field: given}))
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["body", field]


@pytest.mark.parametrize(
    ("kind", "v"),
    [
        ("number", 42), ("number", 42.0), ("number", -0.0), ("number", 1e22), ("number", 1e-7),
        ("number", 123456789012345678), ("boolean", True), ("boolean", False), ("null", None),
        ("text", "Zürich – 東京"), ("datetime", "2026-01-31T12:00:00+02:00"),
        ("ref", "stigmem://t.example/Project/Atlas"), ("string", ""),
    ],
)  # fmt: skip
def test_every_value_verifies_with_the_sdk_when_written_and_when_read(
    live: LiveNode, kind: str, v: object
) -> None:
    record = live.state(type=kind, v=v)
    verify_fact_cid(Fact.model_validate(record))
    read = live.call("GET", f"/v1/facts/{record['id']}").json()
    verify_fact_cid(Fact.model_validate(read))
    assert read["value"] == record["value"]
    if kind not in ("number", "null"):
        assert read["value"]["v"] == v


def test_integer_and_float_of_one_number_share_a_cid_and_travel_as_float(live: LiveNode) -> None:
    first = live.call("POST", "/v1/facts", json=fact(type="number", v=42, source="agent:one"))
    assert '"v":42.0' in first.text
    second = live.state(type="number", v=42.0, source="agent:one")
    assert second["id"] == first.json()["id"]


def test_put_is_post(live: LiveNode) -> None:
    assert live.call("PUT", "/v1/facts", json=fact()).status_code == 201


def test_patch_of_derived_from_is_422_any_other_405(live: LiveNode) -> None:
    path = f"/v1/facts/{live.state()['id']}"
    named = live.call("PATCH", path, json={"derived_from": []})
    assert (named.status_code, named.json()["detail"]["code"]) == (422, "derived_from_immutable")
    other = live.call("PATCH", path, json={"confidence": 0.5})
    assert (other.status_code, other.json()) == (405, {"detail": "Method Not Allowed"})
    assert live.call("DELETE", path).status_code == 405


def test_unknown_fields_are_ignored_with_a_warning(live: LiveNode) -> None:
    record = live.state(colour="red", id="mine")
    assert [text for text in record["warnings"] if "'colour'" in text]
    assert record["id"] != "mine"


def test_bare_and_reserved_relations_cause_warnings(live: LiveNode) -> None:
    assert "bare relation" in live.state(relation="role")["warnings"][0]
    assert "reserved" in live.state(relation="stigmem:x", v="1")["warnings"][0]


# -- repetition -----------------------------------------------------------------------------


def test_the_same_fact_again_is_the_same_record(live: LiveNode) -> None:
    first, again = live.state(), live.state()
    assert again["id"] == first["id"]
    assert again["position"] == first["position"]
    assert live.call("GET", "/v1/facts").json()["total"] == 1


def test_a_then_b_then_a_are_three_facts(live: LiveNode) -> None:
    ids = {live.state(v=v)["id"] for v in ("A", "B", "A")}
    assert len(ids) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"valid_until": "2030-01-01T00:00:00Z"},
        {"valid_from": "2020-01-01T00:00:00Z"},
        {"derived_from": ["a" * 64]},
        {"source": "agent:other"},
        {"confidence": 0.5},
        {"scope": "public"},
        {"interpret_as": "instruction"},
        {"attributes": {"topic": "tea"}},
    ],
)
def test_a_change_of_anything_that_counts_is_a_new_fact(
    live: LiveNode, change: dict[str, object]
) -> None:
    first = live.state(key=CONTROL_TOKEN)
    changed = live.state(key=CONTROL_TOKEN, **change)
    assert changed["id"] != first["id"]
    assert live.state(key=CONTROL_TOKEN, **change)["id"] == changed["id"]


def test_confidence_zero_is_always_a_new_record_and_retracts(live: LiveNode) -> None:
    first = live.state()
    one = live.state(v="retracted", confidence=0.0)
    two = live.state(v="retracted", confidence=0.0)
    assert one["id"] != two["id"]
    assert one["confidence"] == 0.0
    assert live.call("GET", f"/v1/facts/{first['id']}").json()["confidence"] == 0.0
    assert live.call("GET", f"/v1/facts/{one['id']}").status_code == 200
    assert live.call("GET", "/v1/facts").json()["facts"] == []


def test_an_idempotency_key_answers_again_without_writing(live: LiveNode) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = live.call("POST", "/v1/facts", json=fact(), headers=headers)
    written = live.state(v="other")["position"]
    again = live.call("POST", "/v1/facts", json=fact(), headers=headers)
    assert again.json()["id"] == first.json()["id"]
    assert live.node.log.head().position == written
    clash = live.call("POST", "/v1/facts", json=fact(v="else"), headers=headers)
    assert (clash.status_code, clash.json()["detail"]["code"]) == (409, "idempotency_conflict")


# -- looking up -----------------------------------------------------------------------------


def test_a_fact_is_found_by_id_and_by_content_id(live: LiveNode) -> None:
    record = live.state()
    by_id = live.call("GET", f"/v1/facts/{record['id']}").json()
    assert by_id == live.call("GET", f"/v1/facts/{record['cid']}").json()
    assert (by_id["source_trust"], by_id["effective_confidence"]) == (1.0, 1.0)
    assert live.call("HEAD", f"/v1/facts/{record['id']}").status_code == 200


def test_a_content_id_answers_with_the_newest(live: LiveNode) -> None:
    live.state(v="A")
    live.state(v="B")
    newest = live.state(v="A")
    assert live.call("GET", f"/v1/facts/{newest['cid']}").json()["id"] == newest["id"]


def test_a_malformed_content_id_is_400_and_an_absent_fact_404(live: LiveNode) -> None:
    bad = live.call("GET", "/v1/facts/sha256:12")
    assert (bad.status_code, bad.json()["detail"]["code"]) == (400, "cid_malformed")
    for name in ("none", "sha256:" + "0" * 64):
        gone = live.call("GET", f"/v1/facts/{name}")
        assert (gone.status_code, gone.json()) == FACT_NOT_FOUND


def test_a_fact_is_absent_as_of_before_its_write(live: LiveNode) -> None:
    record = live.state()
    path = f"/v1/facts/{record['id']}"
    before = live.call("GET", path, params={"as_of": f"position:{record['position'] - 1}"})
    assert before.status_code == 404
    at = live.call("GET", path, params={"as_of": f"position:{record['position']}"})
    assert at.json()["id"] == record["id"]


def test_verify_cid_recomputes(live: LiveNode) -> None:
    record = live.state(type="number", v=42)
    check = live.call("POST", f"/v1/facts/{record['id']}/verify-cid").json()
    assert check == {
        "cid_valid": True,
        "computed_cid": record["cid"],
        "stored_cid": record["cid"],
        "mismatch_reason": None,
    }


def test_provenance_lists_parents_and_absent_ones_look_alike(live: LiveNode) -> None:
    parent = live.state()
    bare = parent["cid"].removeprefix("sha256:")
    child = live.state(
        relation="memory:derived",
        derived_from=[{"hash": parent["cid"], "fact_id": parent["id"]}, bare, "f" * 64],
    )
    assert child["derived_from"] == [
        {"hash": parent["cid"], "fact_id": parent["id"]},
        {"hash": parent["cid"]},
        {"hash": "sha256:" + "f" * 64},
    ]
    answer = live.call("GET", f"/v1/facts/{child['id']}/provenance").json()
    known = {
        "hash": parent["cid"],
        "fact_id": parent["id"],
        "entity": parent["entity"],
        "exists": True,
    }
    absent = {"hash": "sha256:" + "f" * 64, "fact_id": None, "entity": None, "exists": False}
    assert {name: answer[name] for name in ("fact_id", "cid", "derived_from")} == {
        "fact_id": child["id"],
        "cid": child["cid"],
        "derived_from": [known, known, absent],
    }


def test_a_fact_cannot_derive_from_itself(live: LiveNode) -> None:
    record = live.state()
    answer = live.call("POST", "/v1/facts", json=fact(derived_from=[record["cid"]]))
    assert answer.status_code == 400
    assert answer.json()["detail"]["code"] == "provenance_cycle_detected"


# -- retracting -----------------------------------------------------------------------------


def test_a_retracted_fact_keeps_its_record_with_confidence_zero(live: LiveNode) -> None:
    record = live.state()
    answer = live.call("POST", f"/v1/facts/{record['id']}/retract", json={"reason": "wrong"})
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["id", "retracted", "position", "fact"]
    assert (body["id"], body["retracted"], body["fact"]["confidence"]) == (record["id"], True, 0.0)
    assert body["position"] > record["position"]
    assert live.call("GET", "/v1/facts").json()["total"] == 0
    again = live.call("POST", f"/v1/facts/{record['id']}/retract")
    assert (again.status_code, again.json()["detail"]["code"]) == (409, "fact_already_retracted")


def test_an_absent_fact_cannot_be_retracted(live: LiveNode) -> None:
    answer = live.call("POST", "/v1/facts/none/retract", json={})
    assert (answer.status_code, answer.json()) == FACT_NOT_FOUND


# -- sessions -------------------------------------------------------------------------------


def test_a_session_writes_where_it_read_only_with_provenance(live: LiveNode) -> None:
    headers = {"Stigmem-Session": "sess-1"}
    parent = live.state()
    live.call("GET", "/v1/facts", headers=headers)
    body = fact(relation="memory:derived", v="x")
    refused = live.call("POST", "/v1/facts", json=body, headers=headers)
    assert refused.status_code == 403
    assert refused.json()["detail"] == {
        "code": "feedback_loop_provenance_required",
        "message": "writes into scopes read earlier in the same session require "
        "write_mode='summarize_with_provenance' and source provenance",
        "session_id": "sess-1",
        "scope": "company",
    }
    body |= {"write_mode": "summarize_with_provenance", "derived_from": [{"hash": parent["cid"]}]}
    assert live.call("POST", "/v1/facts", json=body, headers=headers).status_code == 201
    elsewhere = fact(scope="public")
    assert live.call("POST", "/v1/facts", json=elsewhere, headers=headers).status_code == 201


def test_a_session_id_over_128_characters_is_refused(live: LiveNode) -> None:
    headers = {"Stigmem-Session": "s" * 129}
    for method, path, body in (
        ("POST", "/v1/facts", fact()),
        ("GET", "/v1/facts", None),
        ("POST", "/v1/recall", {"query": "x"}),
    ):
        answer = live.call(method, path, json=body, headers=headers)
        assert answer.json()["detail"]["code"] == "session_id_too_long"


def test_answers_are_compact_json(live: LiveNode) -> None:
    answer = live.call("POST", "/v1/facts", json=fact())
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.text)["hlc"].count(".") == 1
