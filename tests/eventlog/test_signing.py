"""Signed heads: one canonical text, one signature, and proof of who may sign."""

from pathlib import Path

import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.errors import EventLogError
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.log import Head, StreamHead
from engramlog.eventlog.signing import (
    SignedHeads,
    read_heads,
    sign_heads,
    signature_fault,
    signed_bytes,
    write_heads,
)
from tests.worlds.samples import COMPANY, START_US, TEAM


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity.create(tmp_path / "identity", FixedClock(START_US))


def statement(identity: Identity) -> SignedHeads:
    streams = {
        name: StreamHead(name, seq, bytes([seq]) * 32) for name, seq in ((TEAM, 2), (COMPANY, 1))
    }
    return sign_heads(identity, Head(3, START_US, START_US), streams, START_US)


def test_a_signed_statement_verifies(identity: Identity) -> None:
    heads = statement(identity)
    assert signature_fault(heads) is None
    assert signature_fault(heads, frozenset({identity.public_key_b64})) is None
    assert [head.stream for head in heads.heads] == sorted([TEAM, COMPANY])


def test_any_change_breaks_the_signature(identity: Identity) -> None:
    heads = statement(identity)
    head = msgspec.structs.replace(heads.heads[0], stream_seq=9)
    changes = (
        {"position": 4},
        {"epoch": 2},
        {"issued_at_us": 1},
        {"heads": [head]},
        {"node_id": "stigmem:node:another"},
        {"signature": "AAAA"},
        {"signature": "not base64!"},
        {"public_key": "short"},
    )
    for change in changes:
        changed = msgspec.structs.replace(heads, **change)
        assert signature_fault(changed) is not None, change


def test_the_signed_text_is_json_with_sorted_keys_and_no_spaces(identity: Identity) -> None:
    heads = statement(identity)
    context, text = signed_bytes(heads).split(b"\n", 1)
    assert context == b"engramlog/signed-heads/1"
    assert text.startswith(b'{"epoch":1,"heads":[{"hash":"')
    assert b'"signature":""' in text


def test_a_rotated_key_still_speaks_for_the_node(identity: Identity) -> None:
    before = statement(identity)
    identity.rotate()
    after = statement(identity)
    assert signature_fault(before) is None
    assert signature_fault(after) is None
    unproven = msgspec.structs.replace(after, rotations=[])
    assert signature_fault(unproven) is not None


def test_a_key_of_another_node_does_not_count(identity: Identity, tmp_path: Path) -> None:
    other = Identity.create(tmp_path / "other", FixedClock(START_US))
    claim = msgspec.structs.replace(statement(other), node_id=identity.node_id)
    forged = msgspec.structs.replace(claim, signature="")
    assert signature_fault(forged) is not None
    assert "speak for" in str(
        signature_fault(statement(other), frozenset({identity.public_key_b64}))
    )


def test_a_statement_survives_its_file(identity: Identity, tmp_path: Path) -> None:
    path = tmp_path / "heads.json"
    heads = statement(identity)
    write_heads(path, heads)
    write_heads(path, heads)
    assert read_heads(path) == heads


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "heads.json"
    with pytest.raises(EventLogError, match=r"heads\.json"):
        read_heads(path)
    path.write_text("{}")
    with pytest.raises(EventLogError, match=r"heads\.json"):
        read_heads(path)
