"""Every broken link is refused with the reason."""

import msgspec
import pytest

from engramlog.eventlog.chain import Chain, link_fault
from engramlog.eventlog.codec import (
    decode_header,
    encode_header,
    encode_payload,
    header_hash,
    header_of,
)
from engramlog.eventlog.errors import CorruptLog, UnknownKind
from engramlog.eventlog.event import Draft, Header, Stored
from engramlog.eventlog.kinds import Payload
from engramlog.eventlog.log import Head, StreamHead
from tests.worlds.samples import COMPANY, ORIGIN, START_US, fact


def link_two() -> tuple[Stored, Stored]:
    chain = Chain(ORIGIN, 1, Head(), {})
    drafts = [fact("first"), fact("second")]
    payloads = [encode_payload(draft.payload) for draft in drafts]
    first, second = chain.link(drafts, payloads, START_US, None)
    return first[1], second[1]


def after(stored: Stored) -> StreamHead:
    header = decode_header(stored.header)
    return StreamHead(header.stream, header.stream_seq, stored.hash)


def rewritten(stored: Stored, **changes: object) -> Stored:
    """The event with another header and a matching hash."""
    header = msgspec.structs.replace(decode_header(stored.header), **changes)
    data = encode_header(header)
    return msgspec.structs.replace(stored, header=data, hash=header_hash(data))


def fault_after(previous: StreamHead | None, stored: Stored) -> str | None:
    """Why an event as read from a log does not follow."""
    try:
        return link_fault(previous, stored, header_of(stored))
    except CorruptLog as fault:
        return str(fault)


def test_links_of_one_chain_verify() -> None:
    first, second = link_two()
    assert fault_after(None, first) is None
    assert fault_after(after(first), second) is None


def test_a_stream_begins_at_one_and_continues_without_gap() -> None:
    first, second = link_two()
    assert "expected sequence 1, is 2" in str(fault_after(None, second))
    assert "expected sequence 2, is 1" in str(fault_after(after(first), first))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 2}, "format 2"),
        ({"prev_hash": bytes(32)}, "prev_hash"),
        ({"payload_hash": bytes(32)}, "commitment"),
        ({"payload_hash": bytes(31)}, "wrong length"),
        ({"event_id": bytes(15)}, "wrong length"),
        ({"origin": "stigmem:node:another"}, "does not belong to origin"),
        ({"schema_version": 0}, "out of range"),
        ({"hlc": -1}, "out of range"),
    ],
)
def test_a_rewritten_header_with_a_fitting_hash_is_found(
    changes: dict[str, object], reason: str
) -> None:
    first, second = link_two()
    assert reason in str(fault_after(after(first), rewritten(second, **changes)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hash": bytes(32)}, "hash does not match"),
        ({"salt": bytes(16)}, "commitment"),
        ({"payload": b"{}"}, "commitment"),
        ({"payload": None}, "payload is missing"),
        ({"salt": None}, "payload is missing"),
        ({"header": b""}, "undecodable"),
        ({"header": b"\x90"}, "undecodable"),
        ({"header": "text"}, "hash does not match|undecodable"),
    ],
)
def test_changed_columns_are_found(changes: dict[str, object], reason: str) -> None:
    first, second = link_two()
    fault = fault_after(after(first), msgspec.structs.replace(second, **changes))
    assert any(part in str(fault) for part in reason.split("|"))


def test_a_header_with_a_field_too_many_is_refused() -> None:
    first, _ = link_two()
    fields = list(msgspec.structs.astuple(decode_header(first.header)))
    data = msgspec.msgpack.encode([*fields, "hidden"])
    assert isinstance(msgspec.msgpack.decode(data, type=Header), Header)
    longer = msgspec.structs.replace(first, header=data, hash=header_hash(data))
    assert fault_after(None, longer) == "header is not an array of 14"


def test_taking_back_restores_every_head() -> None:
    chain = Chain(ORIGIN, 1, Head(), {})
    drafts = [fact()]
    chain.link(drafts, [b"{}"], START_US, None)
    settled = chain.settle()
    chain.link([fact(), fact(scope="team")], [b"{}", b"{}"], START_US + 9, None)
    chain.take_back()
    assert (chain.position, chain.stream_seq(COMPANY)) == (1, 1)
    assert chain.stream_seq(f"{ORIGIN}/1/scope/team") == 0
    assert chain.settle() == settled


def test_a_payload_without_a_declared_kind_cannot_be_linked() -> None:
    class Stranger(Payload, frozen=True, tag="stranger"):
        pass

    draft = Draft(Stranger(), "node", bytes(16), "agent:alice")  # pyright: ignore
    with pytest.raises(UnknownKind, match="stranger"):
        Chain(ORIGIN, 1, Head(), {}).link([draft], [b"{}"], START_US, None)
