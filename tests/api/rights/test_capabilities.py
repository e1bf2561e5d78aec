"""Capability tokens over HTTP: no more than their issuer's rights, nowhere but where they say."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engramlog.api.routes.facts.scopes import LintReport
from engramlog.api.routes.table import ROUTES
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.rights.capability_grant import Grant
from engramlog.projections.rights.capability_token import (
    Capability,
    decode_bearer,
    encode_bearer,
    issue,
    narrow,
)
from engramlog.projections.writing.submission import Submission
from tests.worlds.live import CONTROL_TOKEN, LiveNode

ALICE = "stigmem://acme.example/user/alice"
AL = "stigmem://acme.example/user/al"
LINT = {"scope": "company", "checks": ["contradiction"]}
HOUR_US = 3_600_000_000
START_US = 1_760_000_000_000_000


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START_US)


@pytest.fixture
def node(serve: Callable[..., LiveNode], clock: FixedClock) -> LiveNode:
    return serve(clock=clock, auth_required=True)


@pytest.fixture
def ops(node: LiveNode) -> str:
    return node.mint("read", "write", entity="agent:ops", scopes=["team", "company"])


def ask(node: LiveNode, key: str, **fields: Any) -> Any:
    body = {"subject": "agent:crawler", **fields}
    return node.call("POST", "/v1/capabilities", key=key, json=body)


def token(node: LiveNode, key: str, **fields: Any) -> str:
    answer = ask(node, key, **fields)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def listed(node: LiveNode, key: str) -> set[str]:
    answer = node.call("GET", "/v1/facts", key=key)
    assert answer.status_code == 200, answer.text
    return {record["entity"] for record in answer.json()["facts"]}


@pytest.fixture
def world(node: LiveNode, ops: str) -> None:
    for entity, scope in ((ALICE, "team"), (AL, "team"), ("agent:ann", "company")):
        node.state(key=ops, entity=entity, scope=scope, source="agent:ops")


@pytest.mark.usefixtures("world")
def test_a_token_reads_its_scopes_and_its_entities(node: LiveNode, ops: str) -> None:
    assert listed(node, ops) == {ALICE, AL, "agent:ann"}
    assert listed(node, token(node, ops)) == {ALICE, AL, "agent:ann"}
    assert listed(node, token(node, ops, scopes=["company"])) == {"agent:ann"}
    assert listed(node, token(node, ops, entity=AL)) == {AL}
    assert listed(node, token(node, ops, entity="stigmem://acme.example/user")) == {ALICE, AL}


@pytest.mark.usefixtures("world")
def test_facts_outside_a_tokens_grant_do_not_exist_for_it(node: LiveNode, ops: str) -> None:
    fact_id = next(
        record["id"]
        for record in node.call("GET", "/v1/facts", key=ops).json()["facts"]
        if record["entity"] == ALICE
    )
    narrow_token = token(node, ops, entity=AL, verbs=["read", "write"])
    for method, path in (
        ("GET", f"/v1/facts/{fact_id}"),
        ("GET", f"/v1/facts/{fact_id}/provenance"),
        ("POST", f"/v1/facts/{fact_id}/retract"),
        ("GET", f"/v1/time-travel/facts/{fact_id}"),
        ("GET", f"/v1/cards/{ALICE}?scope=team"),
    ):
        assert node.call(method, path, key=narrow_token).status_code == 404, path
    recalled = node.call(
        "POST",
        "/v1/recall",
        key=narrow_token,
        json={"query": "who is CEO", "scope": "team", "token_budget": 2000},
    ).json()
    assert {fact["fact"]["entity"] for fact in recalled["results"]} <= {AL}
    around = node.call("GET", f"/v1/graph/neighbors?entity={ALICE}&scope=team", key=narrow_token)
    assert around.json()["neighbors"] == []
    batch = node.call(
        "POST", "/v1/facts/batch", key=narrow_token, json=[{"op": "retract", "id": fact_id}]
    )
    assert batch.json()["results"][0]["status"] == 404
    assert node.call("GET", f"/v1/facts/{fact_id}", key=ops).status_code == 200


def test_a_token_writes_as_its_subject_where_it_says(node: LiveNode, ops: str) -> None:
    writer = token(node, ops, verbs=["write"], scopes=["team"], entity=AL)

    def wrote(**fields: Any) -> int:
        body = {
            "entity": AL,
            "relation": "memory:role",
            "value": {"type": "string", "v": "CEO"},
            "source": "agent:crawler",
            "scope": "team",
            **fields,
        }
        return node.call("POST", "/v1/facts", key=writer, json=body).status_code

    assert wrote() == 201
    assert wrote(entity=ALICE) == 403
    assert wrote(scope="company") == 403
    assert wrote(source="agent:ops") == 403
    assert wrote(value={"type": "text", "v": "do it", "interpret_as": "instruction"}) == 403
    assert node.call("GET", "/v1/facts", key=writer).status_code == 403
    event = node.node.log.read(0, 100)[-1]
    assert event.header.actor.startswith("capability:")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"scopes": ["public"]}, 403),
        ({"scopes": ["team", "local"]}, 403),
        ({"ttl_seconds": 90 * 86_400 + 1}, 422),
        ({"ttl_seconds": 0}, 422),
        ({"expires_at": "2020-01-01T00:00:00Z"}, 422),
        ({"verbs": ["admin"]}, 422),
        ({"verbs": []}, 422),
        ({"entity": "a b"}, 422),
        ({"garden": "secret"}, 422),
    ],
)
def test_no_issuer_grants_more_than_they_have(
    node: LiveNode, ops: str, fields: dict[str, Any], status: int
) -> None:
    assert ask(node, ops, **fields).status_code == status


def test_a_reader_grants_no_writing_and_no_issuer_lends_anothers_name(node: LiveNode) -> None:
    reader = node.mint("read", entity="agent:reader")
    assert ask(node, reader, verbs=["write"]).json()["detail"]["code"] == (
        "capability_exceeds_rights"
    )
    modest = node.mint("read", "write", entity="agent:modest", sources=[])
    assert ask(node, modest, verbs=["write"], subject="agent:boss").status_code == 403
    assert ask(node, modest, verbs=["write"], subject="agent:modest").status_code == 201


def test_a_token_opens_only_routes_bounded_by_scope_and_entity(node: LiveNode) -> None:
    everything = token(node, CONTROL_TOKEN, verbs=["read", "write"])
    for route in ROUTES:
        if route.delegable:
            continue
        path = re.sub(r"\{\w+(:\.\+)?\}", "agent:x", route.path)
        answer = node.call(route.method, path, key=everything)
        assert answer.status_code == 403, (route.method, route.path)
        assert answer.json()["detail"]["code"] == "not_delegable"


def test_a_capability_opens_these_routes_alone() -> None:
    opened = {(route.method, route.path) for route in ROUTES if route.delegable}
    assert opened == {
        ("GET", "/"),
        ("GET", "/.well-known/stigmem"),
        ("GET", "/docs"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/readyz"),
        ("GET", "/ui"),
        ("GET", "/ui/"),
        ("GET", "/ui/{file}"),
        ("GET", "/v1/cards/{entity_uri:.+}"),
        ("GET", "/v1/conflicts"),
        ("GET", "/v1/facts"),
        ("GET", "/v1/facts/{fact_id}"),
        ("GET", "/v1/facts/{fact_id}/provenance"),
        ("GET", "/v1/graph/neighbors"),
        ("GET", "/v1/health"),
        ("GET", "/v1/lint/jobs/{job_id}"),
        ("GET", "/v1/me"),
        ("GET", "/v1/profiles"),
        ("GET", "/v1/profiles/{name}"),
        ("GET", "/v1/recall"),
        ("GET", "/v1/scopes/{scope}/synthesize"),
        ("GET", "/v1/search"),
        ("GET", "/v1/time-travel/diff"),
        ("GET", "/v1/time-travel/entities/{entity_uri:.+}"),
        ("GET", "/v1/time-travel/facts/{fact_id}"),
        ("GET", "/v1/time-travel/state"),
        ("POST", "/v1/capabilities/inspect"),
        ("POST", "/v1/facts"),
        ("POST", "/v1/facts/batch"),
        ("POST", "/v1/facts/{fact_id}/retract"),
        ("POST", "/v1/facts/{fact_id}/verify-cid"),
        ("POST", "/v1/federation/capability-tokens/verify"),
        ("POST", "/v1/lint"),
        ("POST", "/v1/recall"),
        ("PUT", "/v1/facts"),
    }


def test_gardens_of_the_subject_are_not_the_holders(node: LiveNode) -> None:
    ann = node.mint("read", "write", entity="agent:ann")
    made = node.call(
        "POST",
        "/v1/gardens",
        key=ann,
        json={"slug": "secret", "name": "Secret", "scope": "team"},
    ).json()
    node.state(key=ann, garden_id=made["id"], scope="team", source="agent:ann")
    held = token(node, ann, subject="agent:ann", verbs=["read", "write"])
    assert listed(node, held) == set()
    assert node.call("GET", "/v1/facts?garden_id=secret", key=held).status_code == 404
    body = {
        "entity": AL,
        "relation": "memory:role",
        "value": {"type": "string", "v": "x"},
        "source": "agent:ann",
        "scope": "team",
        "garden_id": made["id"],
    }
    assert node.call("POST", "/v1/facts", key=held, json=body).status_code == 404


def code(answer: Any) -> str:
    assert answer.status_code == 401, answer.text
    return answer.json()["detail"]["code"]


def test_expiry_and_revocation_end_a_token_and_those_derived_from_it(
    node: LiveNode, ops: str, clock: FixedClock
) -> None:
    held = token(node, ops, ttl_seconds=60)
    derived = encode_bearer(narrow(decode_bearer(held), grant=Grant(frozenset({"read"}))))
    assert node.call("GET", "/v1/facts", key=derived).status_code == 200
    clock.advance(60_000_000)
    assert code(node.call("GET", "/v1/facts", key=held)) == "token_expired"

    answer = ask(node, ops).json()
    held = answer["token"]
    derived = encode_bearer(narrow(decode_bearer(held), grant=Grant(frozenset({"read"}))))
    path = f"/v1/capabilities/{answer['token_id']}/revoke"
    node.call("POST", path, key=ops, json={"token": derived})
    assert code(node.call("GET", "/v1/facts", key=derived)) == "token_revoked"
    assert node.call("GET", "/v1/facts", key=held).status_code == 200
    stranger = node.mint("read", entity="agent:stranger")
    assert node.call("POST", path, key=stranger).status_code == 403
    assert node.call("POST", path, key=ops).json()["status"] == "revoked"
    assert node.call("POST", path, key=ops).status_code == 409
    assert code(node.call("GET", "/v1/facts", key=held)) == "token_revoked"
    gone = "/v1/capabilities/no-such/revoke"
    assert node.call("POST", gone, key=ops).status_code == 404


def test_revoking_a_key_ends_the_tokens_issued_with_it(node: LiveNode, ops: str) -> None:
    held, other = token(node, ops), token(node, CONTROL_TOKEN)
    rows = node.call("GET", "/v1/auth/keys", key=ops).json()
    node.call("DELETE", f"/v1/auth/keys/{rows[0]['id']}", key=ops)
    assert code(node.call("GET", "/v1/facts", key=held)) == "token_revoked"
    assert node.call("GET", "/v1/facts", key=other).status_code == 200


def test_revocations_stand_in_the_streams_of_the_tokens_scopes(node: LiveNode, ops: str) -> None:
    answer = ask(node, ops, scopes=["team", "company"]).json()
    node.call("POST", f"/v1/capabilities/{answer['token_id']}/revoke", key=ops)
    streams = [
        event.header.stream.split("/", 2)[2]
        for event in node.node.log.read(0, 1000)
        if event.kind == "capability_revoked"
    ]
    assert streams == ["scope/team", "scope/company"]


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[LiveNode]:
    made = LiveNode(tmp_path / "stranger", clock=FixedClock(START_US))
    yield made
    made.close()


def test_tokens_of_strangers_and_forgeries_open_nothing(node: LiveNode, stranger: LiveNode) -> None:
    foreign = token(stranger, CONTROL_TOKEN)
    assert code(node.call("GET", "/v1/facts", key=foreign)) == "token_issuer_unknown"
    held = token(node, CONTROL_TOKEN)
    assert code(node.call("GET", "/v1/facts", key=held[:-8] + "AAAAAAAA")) == "token_invalid"
    cut = decode_bearer(held)
    assert (
        code(node.call("GET", "/v1/facts", key=encode_bearer(Capability(cut.root))))
        == "token_invalid"
    )


def test_no_token_falls_back_to_the_keyless_caller(live: LiveNode) -> None:
    assert code(live.call("GET", "/v1/facts", key="stigcap1.AAAA")) == "token_invalid"


def test_a_retired_key_vouches_only_for_earlier_tokens(node: LiveNode, ops: str) -> None:
    held = token(node, ops)
    forged = issue(
        node.node.identity,
        issuer="agent:ops",
        subject="agent:eve",
        grant=Grant(frozenset({"read"})),
        issued_at_us=START_US,
        expires_at_us=START_US + HOUR_US,
    )
    assert node.call("GET", "/v1/facts", key=encode_bearer(forged)).status_code == 200
    node.node.identity.rotate()
    assert node.call("GET", "/v1/facts", key=held).status_code == 200
    assert code(node.call("GET", "/v1/facts", key=encode_bearer(forged))) == "token_invalid"


def test_lists_show_no_token(node: LiveNode, ops: str) -> None:
    answer = ask(node, ops, description="nightly").json()
    assert answer["status"] == "active"
    own = node.call("GET", "/v1/capabilities", key=ops).json()["capabilities"]
    assert [row["description"] for row in own] == ["nightly"]
    assert "token" not in own[0]
    assert node.call("GET", "/v1/capabilities?all=true", key=ops).status_code == 403
    everybody = node.call("GET", "/v1/capabilities?all=true", key=CONTROL_TOKEN).json()
    assert len(everybody["capabilities"]) == 1
    assert node.call("GET", "/v1/capabilities", key=CONTROL_TOKEN).json()["capabilities"] == []


def test_inspection_tells_claims_and_whether_they_hold(node: LiveNode, ops: str) -> None:
    held = token(node, ops, scopes=["team"], entity=AL)
    told = node.call("POST", "/v1/capabilities/inspect", key=ops, json={"token": held}).json()
    assert told["valid"] is True
    assert (told["verbs"], told["scopes"], told["entities"]) == (["read"], ["team"], [AL])
    bad = node.call("POST", "/v1/capabilities/inspect", key=ops, json={"token": "x"}).json()
    assert bad["valid"] is False
    assert bad["reason"]


def test_the_protocols_routes_issue_verify_and_revoke_tokens(node: LiveNode, ops: str) -> None:
    body = {
        "issuer": "agent:ops",
        "subject": "agent:crawler",
        "verb": "write",
        "object": "stigmem://facts/scope:team",
        "ttl_seconds": 60,
    }
    path = "/v1/federation/capability-tokens"
    made = node.call("POST", path, key=ops, json=body)
    assert made.status_code == 201
    answer = made.json()
    assert set(answer) == {
        *("token_id", "issuer", "subject", "verb", "object", "issued_at", "expiry", "nonce"),
        "token_json",
    }
    assert len(answer["nonce"]) == 64

    def check(text: str) -> Any:
        return node.call("POST", f"{path}/verify", key=ops, json={"token_json": text}).json()

    assert check(answer["token_json"]) == {"valid": True}
    altered = answer["token_json"].replace('"verb":"write"', '"verb":"read"')
    assert check(altered) == {"valid": False, "reason": "token_invalid"}
    revoke = f"{path}/{answer['token_id']}/revoke"
    stranger = node.call("POST", revoke, key=node.mint("read", entity="agent:stranger"), json={})
    assert stranger.status_code == 403
    assert "not authorized" in stranger.json()["detail"]
    holder = node.mint("read", entity="agent:crawler")
    assert node.call("POST", revoke, key=holder, json={}).json()["status"] == "revoked"
    assert check(answer["token_json"]) == {"valid": False, "reason": "token_revoked"}
    for wrong, status in (
        ({"issuer": "agent:boss"}, 403),
        ({"verb": "delete"}, 400),
        ({"object": "stigmem://facts/scope:public"}, 403),
    ):
        assert node.call("POST", path, key=ops, json={**body, **wrong}).status_code == status


def test_tokens_survive_a_restart_and_so_do_revocations(tmp_path: Path) -> None:
    first = LiveNode(tmp_path / "d", auth_required=True)
    kept, ended = ask(first, CONTROL_TOKEN).json(), ask(first, CONTROL_TOKEN).json()
    first.call("POST", f"/v1/capabilities/{ended['token_id']}/revoke", key=CONTROL_TOKEN)
    first.close()
    second = LiveNode(tmp_path / "d", auth_required=True)
    try:
        assert second.call("GET", "/v1/facts", key=kept["token"]).status_code == 200
        assert code(second.call("GET", "/v1/facts", key=ended["token"])) == "token_revoked"
    finally:
        second.close()


def test_holders_use_up_their_issuers_quota(serve: Callable[..., LiveNode]) -> None:
    limited = serve(auth_required=True, quota_reads_per_hour=3)
    ops = limited.mint("read", entity="agent:ops")
    held = [token(limited, ops), token(limited, ops)]
    reads = [limited.call("GET", "/v1/facts", key=held[n % 2]).status_code for n in range(4)]
    assert reads.count(429) >= 1
    assert limited.call("GET", "/v1/facts", key=ops).status_code == 429


def test_holders_share_the_jobs_of_their_issuer(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Event()

    def wait(*_: object) -> LintReport:
        ended.wait()
        return LintReport([], "", "company", (), 0, False)

    monkeypatch.setattr("engramlog.api.routes.facts.scopes._report", wait)
    monkeypatch.setattr("engramlog.api.node.tasks.jobs.WAITING_EACH_MAX", 1)
    busy = serve(auth_required=True, job_facts_min=0)
    busy.state(key=busy.mint("write", entity="agent:writer"))
    ops, ann = busy.mint("read", entity="agent:ops"), busy.mint("read", entity="agent:ann")
    asking = (token(busy, ops), token(busy, ops), ops, ann)
    try:
        asked = [busy.call("POST", "/v1/lint", key=key, json=LINT).status_code for key in asking]
    finally:
        ended.set()
    assert asked == [202, 503, 503, 202]


@pytest.mark.usefixtures("world")
def test_holders_share_the_writers_turns_of_their_issuer(
    node: LiveNode, ops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []
    take = node.node.writer.take

    def noting(submission: Submission) -> None:
        turns.append(submission.queued_as)
        take(submission)

    holders = [token(node, ops, subject=f"agent:{name}", verbs=["write"]) for name in "ab"]
    monkeypatch.setattr(node.node.writer, "take", noting)
    for key, source in zip((*holders, ops), ("agent:a", "agent:b", "agent:ops"), strict=True):
        node.state(key=key, entity=AL, scope="team", source=source)
    assert turns == ["agent:ops"] * 3


def test_tokens_are_listed_in_pages_newest_first(node: LiveNode, ops: str) -> None:
    names = [f"agent:n{number}" for number in range(5)]
    for name in names:
        token(node, ops, subject=name)
    found: list[str] = []
    cursor = ""
    while True:
        page = node.call("GET", f"/v1/capabilities?limit=2{cursor}", key=ops).json()
        found += [each["subject"] for each in page["capabilities"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert found == names[::-1]


@pytest.mark.usefixtures("world")
def test_no_token_opens_while_the_revocations_cannot_be_read(
    node: LiveNode, ops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = token(node, ops)
    revoked = token(node, ops)
    page = node.call("GET", "/v1/capabilities?limit=1", key=ops).json()
    gone = page["capabilities"][0]["token_id"]
    before = node.node.log.head().position
    assert node.call("POST", f"/v1/capabilities/{gone}/revoke", key=ops).status_code == 200

    def fails(_: object) -> None:
        raise OSError("the disk is gone")

    assert listed(node, text)
    monkeypatch.setattr("engramlog.projections.image.reader.load_revocations", fails)
    with pytest.raises(OSError, match="gone"):
        node.node.reader.committed(list(node.node.log.iterate(before)))
    for each in (text, revoked):
        assert node.call("GET", "/v1/facts", key=each).status_code == 401
