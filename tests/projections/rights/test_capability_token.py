"""Capabilities: their rights after narrowing, and forgeries that must fail."""

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.identity import Identity
from engramlog.projections.normalization import SCOPES, lies_under
from engramlog.projections.rights.capability_grant import (
    Grant,
    GrantError,
    parse_grant,
    stored_prefix,
)
from engramlog.projections.rights.capability_token import (
    Block,
    Capability,
    CapabilityInvalid,
    block_bytes,
    decode_bearer,
    digests,
    encode_bearer,
    issue,
    narrow,
)
from engramlog.projections.rights.capability_verification import fault_of, verify

NOW_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
WIDE = Grant(frozenset({"read", "write"}), frozenset({"team", "company"}))


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.create(tmp_path_factory.mktemp("identity") / "a", FixedClock(NOW_US))


def issued(identity: Identity, grant: Grant = WIDE, **fields: Any) -> Capability:
    options: dict[str, Any] = {
        "issuer": "agent:ops",
        "subject": "agent:crawler",
        "issued_at_us": NOW_US,
        "expires_at_us": NOW_US + HOUR_US,
    }
    return issue(identity, grant=grant, **{**options, **fields})


def test_a_token_has_its_grant_and_survives_its_text(identity: Identity) -> None:
    verified = verify(decode_bearer(encode_bearer(issued(identity))))
    assert verified.grant == WIDE
    assert (verified.issuer, verified.subject) == ("agent:ops", "agent:crawler")
    assert verified.node_id == identity.node_id
    assert verified.expires_at_us == NOW_US + HOUR_US
    assert fault_of(verified, NOW_US) is None


def test_a_token_is_laid_out_and_signed_as_the_documentation_says(identity: Identity) -> None:
    word = encode_bearer(narrow(narrow(issued(identity)), expires_at_us=NOW_US + 10))
    root, blocks, proof = msgspec.msgpack.decode(_bytes(word.removeprefix("stigcap1.")))
    key = base64.b64decode(json.loads(root)["public_key"])
    context, digest = b"", b""
    for part in (root, *blocks):
        said = json.loads(part)
        signature = _bytes(said.pop("signature"))
        plain = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
        Ed25519PublicKey.from_public_bytes(key).verify(signature, context + digest + plain)
        key = _bytes(said["next_key"])
        context, digest = b"engramlog/capability-block/1\n", sha256(digest + part.encode()).digest()
    assert len(blocks) == 2
    assert Ed25519PrivateKey.from_private_bytes(proof).public_key().public_bytes_raw() == key


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_narrowing_needs_no_node_and_only_takes_away(identity: Identity) -> None:
    under = Grant(frozenset({"read"}), frozenset({"company", "public"}), ("stigmem://a.example",))
    lesser = narrow(issued(identity), grant=under, expires_at_us=NOW_US + 10)
    least = narrow(lesser, grant=Grant(frozenset({"read", "write"}), frozenset(SCOPES)))
    for token in (lesser, least):
        verified = verify(token)
        assert verified.grant == Grant(
            frozenset({"read"}), frozenset({"company"}), ("stigmem://a.example",)
        )
        assert verified.expires_at_us == NOW_US + 10
    assert len(verify(least).revocation_ids) == 3
    assert verify(least).revocation_ids[:2] == verify(lesser).revocation_ids


grants = st.builds(
    Grant,
    st.sets(st.sampled_from(["read", "write"]), min_size=1).map(frozenset),
    st.sets(st.sampled_from(SCOPES), min_size=1).map(frozenset),
    st.sampled_from([(), ("stigmem://a",), ("stigmem://a/b",), ("agent:",)]),
)
entities = st.sampled_from(["stigmem://a", "stigmem://a/b", "stigmem://a/b/c", "agent:x", "x"])


@given(grants, st.lists(grants, max_size=4), entities)
def test_a_chain_allows_the_intersection_of_its_links(
    identity: Identity, first: Grant, others: list[Grant], entity: str
) -> None:
    token = issued(identity, first)
    for other in others:
        token = narrow(token, grant=other)
    grant, links = verify(token).grant, [first, *others]
    assert grant.verbs == frozenset.intersection(*(link.verbs for link in links))
    assert grant.scopes == frozenset.intersection(*(link.scopes for link in links))
    assert _covers(grant, entity) == all(_covers(link, entity) for link in links)


def _covers(grant: Grant, entity: str) -> bool:
    return all(lies_under(entity, prefix) for prefix in grant.entities)


@given(grants)
def test_words_and_grants_are_one(grant: Grant) -> None:
    assert parse_grant(grant.verb, grant.object) == grant


@pytest.mark.parametrize(
    ("verb", "object_"),
    [
        ("delete", "stigmem://facts"),
        ("read+read", "stigmem://facts"),
        ("", "stigmem://facts"),
        ("read", "stigmem://fact"),
        ("read", "stigmem://facts/scope:"),
        ("read", "stigmem://facts/scope:world"),
        ("read", "stigmem://facts/scope:team/garden:x"),
        ("read", "stigmem://factsheet"),
        ("read", "stigmem://facts/entity:"),
        ("read", "stigmem://facts/entity:Agent%3AA"),
    ],
)
def test_words_that_mean_nothing_allow_nothing(verb: str, object_: str) -> None:
    with pytest.raises(GrantError):
        parse_grant(verb, object_)


@pytest.mark.parametrize(
    ("prefix", "entity", "inside"),
    [
        ("stigmem://a.example/user/al", "stigmem://a.example/user/alice", False),
        ("stigmem://a.example/user/al", "stigmem://a.example/user/al", True),
        ("stigmem://a.example/user/al", "stigmem://a.example/user/al/notes", True),
        ("stigmem://a.example", "stigmem://a.example.evil/user/x", False),
        ("stigmem://a.example", "stigmem://a.example:8080/user/x", False),
        ("stigmem://a.example/", "stigmem://a.example/user/x", True),
        ("agent:", "agent:ann", True),
        ("agent", "agent:ann", False),
        ("agent:ann", "agent:anna", False),
    ],
)
def test_prefixes_end_where_names_end(prefix: str, entity: str, inside: bool) -> None:
    assert lies_under(entity, prefix) is inside


def test_prefixes_are_compared_as_entities_are_stored() -> None:
    assert stored_prefix("  STIGMEM://A.example/User ") == "stigmem://a.example/user"
    for text in ("", " ", "a b", "a\x00b"):
        with pytest.raises(GrantError):
            stored_prefix(text)


@pytest.mark.parametrize(
    ("verb", "scope", "prefix"),
    [
        ("read", "team", "agent:bob"),
        ("read", "company", "agent:ann"),
        ("write", "team", "agent:ann"),
    ],
)
def test_rights_that_exclude_each_other_allow_nothing(
    identity: Identity, verb: str, scope: str, prefix: str
) -> None:
    token = issued(identity, Grant(frozenset({"read"}), frozenset({"team"}), ("agent:ann",)))
    other = Grant(frozenset({verb}), frozenset({scope}), (prefix,))
    assert fault_of(verify(narrow(token, grant=other)), NOW_US) == "token_invalid"


def refused(capability: Capability) -> str:
    with pytest.raises(CapabilityInvalid) as caught:
        verify(capability)
    return str(caught.value)


def test_cutting_a_block_off_is_seen(identity: Identity) -> None:
    token = issued(identity)
    lesser = narrow(token, grant=Grant(frozenset({"read"})))
    assert "whole" in refused(Capability(lesser.root, [], lesser.proof))
    assert "whole" in refused(Capability(lesser.root))
    assert "whole" in refused(Capability(lesser.root, lesser.blocks))


def test_a_block_of_another_token_does_not_fit(identity: Identity) -> None:
    mine, other = issued(identity), issued(identity)
    lesser = narrow(other, grant=Grant(frozenset({"read"})))
    closed = issued(identity, narrowable=False)
    for root in (mine.root, closed.root):
        assert "not signed" in refused(Capability(root, lesser.blocks, lesser.proof))
    assert "whole" in refused(Capability(closed.root, [], lesser.proof))


def test_a_block_signed_by_a_stranger_does_not_fit(identity: Identity) -> None:
    token, stranger = issued(identity), Ed25519PrivateKey.generate()
    block = Block(verb="read", next_key="")
    signature = base64.urlsafe_b64encode(stranger.sign(block_bytes(digests(token)[-1], block)))
    forged = msgspec.structs.replace(block, signature=signature.decode().rstrip("="))
    text = msgspec.json.encode(forged).decode()
    assert "not signed" in refused(Capability(token.root, [text]))


def test_a_token_of_a_node_that_is_not_its_key_is_refused(
    identity: Identity, tmp_path: Path
) -> None:
    other = Identity.create(tmp_path / "b", FixedClock(NOW_US))
    fields = msgspec.json.decode(issued(identity).root)
    fields["node_id"] = other.node_id
    assert "speak for" in refused(Capability(msgspec.json.encode(fields).decode()))


@pytest.mark.parametrize("field", ["subject", "verb", "object", "expiry", "nonce", "token_id"])
def test_every_field_of_the_root_is_signed(identity: Identity, field: str) -> None:
    fields = msgspec.json.decode(issued(identity, narrowable=False).root)
    better = {
        "verb": "read",
        "object": "stigmem://facts",
        "expiry": "2024-01-01T00:00:00+00:00",
    }
    fields[field] = better.get(field, "agent:eve")
    assert "not signed" in refused(Capability(msgspec.json.encode(fields).decode()))


def test_a_field_given_twice_is_not_read_two_ways(identity: Identity) -> None:
    root = issued(identity, Grant(frozenset({"read"})), narrowable=False).root
    for text in (
        '{"verb":"read+write",' + root[1:],
        root[:-1] + ',"verb":"read+write"}',
    ):
        try:
            verified = verify(Capability(text))
        except CapabilityInvalid:
            continue
        assert verified.grant.verbs == {"read"}


def test_every_flipped_bit_of_a_bearer_is_seen(identity: Identity) -> None:
    bearer = encode_bearer(narrow(issued(identity), grant=Grant(frozenset({"read"}))))
    data = bytearray(base64.urlsafe_b64decode(bearer[9:] + "=" * (-len(bearer[9:]) % 4)))
    genuine = verify(decode_bearer(bearer))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        text = "stigcap1." + base64.urlsafe_b64encode(changed).decode().rstrip("=")
        try:
            verified = verify(decode_bearer(text))
        except CapabilityInvalid:
            continue
        # The proof's clamped bits and case-blind hex are two spellings of the same, nothing more.
        assert verified.grant == genuine.grant
        assert verified.subject == genuine.subject


def test_a_token_ends_and_does_not_begin_in_the_future(identity: Identity) -> None:
    verified = verify(issued(identity))
    assert fault_of(verified, NOW_US + HOUR_US - 1) is None
    assert fault_of(verified, NOW_US + HOUR_US) == "token_expired"
    assert fault_of(verified, NOW_US - HOUR_US) == "token_invalid"


def test_a_token_for_more_than_ninety_days_is_invalid(identity: Identity) -> None:
    for lifetime_us in (0, -1, 90 * 24 * HOUR_US + 1):
        token = issued(identity, expires_at_us=NOW_US + lifetime_us)
        assert "90 days" in refused(token)


def test_revoking_a_link_revokes_its_descendants_only(
    identity: Identity,
) -> None:
    token = issued(identity)
    lesser = narrow(token, grant=Grant(frozenset({"read"})))
    least = narrow(lesser, expires_at_us=NOW_US + 5)
    link = verify(lesser).revocation_ids[-1]
    assert fault_of(verify(token), NOW_US, {link}) is None
    assert fault_of(verify(lesser), NOW_US, {link}) == "token_revoked"
    assert fault_of(verify(least), NOW_US, {link}) == "token_revoked"


def test_a_token_that_was_closed_cannot_be_narrowed_nor_one_of_eight_blocks(
    identity: Identity,
) -> None:
    with pytest.raises(CapabilityInvalid, match="cannot be narrowed"):
        narrow(issued(identity, narrowable=False))
    token = issued(identity)
    for _ in range(8):
        token = narrow(token)
    assert verify(token).grant == WIDE
    with pytest.raises(CapabilityInvalid, match="8 blocks"):
        narrow(token)


def test_a_token_of_more_blocks_than_eight_is_refused(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.projections.rights.capability_token.BLOCKS_MAX", 9)
    token = issued(identity)
    for _ in range(9):
        token = narrow(token)
    assert "more than 8 blocks" in refused(token)


@pytest.mark.parametrize(
    "text", ["", "stigcap1.", "stigcap1.!!!!", "stigcap1.AAAA", "x" * 7000, "{", "{}", "[1]"]
)
def test_an_invalid_token_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(CapabilityInvalid):
        verify(decode_bearer(text))


def test_after_a_rotation_the_node_still_speaks_for_itself(tmp_path: Path) -> None:
    identity = Identity.create(tmp_path / "rotating", FixedClock(NOW_US))
    identity.rotate()
    assert verify(issued(identity)).node_id == identity.node_id
