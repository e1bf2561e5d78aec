"""Declarations: allowed addresses, one answer for every failure, and a limit on their number."""

from collections.abc import Callable
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.projections.writing.decide.peers.peering import REJECTED_MAX
from engramlog.replay.federation.declaration import Declaration, declaration_fault, declare
from engramlog.replay.stigmem import peer_token
from engramlog.replay.stigmem.peer_token import Nonces, PeerClaims, PeerTokenError
from tests.worlds.federation.forged import Forger
from tests.worlds.federation.network import START_US
from tests.worlds.live import CONTROL_TOKEN, LiveNode

ADDRESSES = (
    "https://user:pass@node.example",
    "https://node.example/path",
    "https://node.example/..%2f",
    "https://node.example?x=1",
    "https://node.example#x",
    "https://node.example:99999",
    "https://",
    "ftp://node.example",
    "http://node.example",
    "https://node.example/\tx",
)


def declared(forger: Forger, url: str) -> Declaration:
    return declare(forger.identity, url, ["company"], forger.clock.now_us())


@pytest.fixture
def forger(tmp_path: Any) -> Forger:
    return Forger(tmp_path / "forger", FixedClock(START_US))


def test_an_address_is_a_scheme_a_host_and_perhaps_a_port(forger: Forger) -> None:
    for url in ("https://node.example", "https://node.example:8443/", "https://[2001:db8::1]:7"):
        assert declaration_fault(declared(forger, url)) is None, url
    for url in ADDRESSES:
        assert declaration_fault(declared(forger, url)) is not None, url


@pytest.mark.parametrize("scopes", [[], ["company", "world"]])
def test_a_declaration_names_scopes_that_exist(forger: Forger, scopes: list[str]) -> None:
    made = declare(forger.identity, "https://node.example", scopes, forger.clock.now_us())
    fault = declaration_fault(made)
    assert fault is not None
    assert fault.startswith("allowed_scopes must be some of")


def test_every_failure_has_one_answer_and_the_number_is_limited(
    serve: Callable[..., LiveNode], forger: Forger
) -> None:
    live = serve(federation_enabled=True)

    def register(declaration: Declaration) -> dict[str, Any]:
        body = {name: getattr(declaration, name) for name in Declaration.__struct_fields__}
        answer = live.call("POST", "/v1/federation/peers", key=CONTROL_TOKEN, json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    # In order: a private address, one without a server, a bad path, a malformed name.
    tried = ("https://127.0.0.1:1", "https://10.0.0.1:9", "https://node.example/x", "https://a..b")
    answers = [register(declared(forger, url)) for url in tried]
    assert {(each["status"], each["reason"]) for each in answers} == {
        ("rejected", "could not verify the declaration")
    }
    told = live.call("GET", f"/v1/federation/peers/{answers[2]['peer_id']}", key=CONTROL_TOKEN)
    assert told.status_code in (200, 404)
    at = live.node.log.head().position
    register(declared(forger, tried[-1]))
    assert live.node.log.head().position == at, "the same again is not kept again"
    for number in range(REJECTED_MAX + 5):
        made = declared(forger, "ftp://node.example")
        register(Declaration(f"stigmem:node:{number}", *list(_rest(made))))
    rejected = [row for row in live.node.reader.peers if row.state == "rejected"]
    assert len(rejected) == REJECTED_MAX


def _rest(declaration: Declaration) -> list[Any]:
    return [getattr(declaration, name) for name in Declaration.__struct_fields__[1:]]


def test_one_peer_that_uses_up_its_nonces_locks_out_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_token, "NONCES_MAX", 3)
    nonces = Nonces(0)

    def use(issuer: str, nonce: int, now_ms: int = 0) -> None:
        nonces.use(PeerClaims(issuer, "here", 0, 1_000, str(nonce)), now_ms)

    for number in range(3):
        use("greedy", number)
    with pytest.raises(PeerTokenError):
        use("greedy", 3)
    use("other", 0)
    with pytest.raises(PeerTokenError):
        use("other", 0)
    use("greedy", 4, now_ms=1_000 + peer_token.LEEWAY_MS + 1)
