"""Checks a page before any of it is appended. Pure."""

import msgspec
from msgspec import Struct

from engramlog.eventlog.chain import EVENT_ID_BYTES, SALT_BYTES, link_fault
from engramlog.eventlog.clock import COUNTER_LIMIT, FUTURE_SKEW_MS_MAX
from engramlog.eventlog.codec import (
    PAYLOAD_BYTES_MAX,
    PAYLOAD_LEVELS_MAX,
    check_unknown,
    decode_header,
    decode_payload,
    encode_payload,
)
from engramlog.eventlog.event import Foreign, Header, Stored, UnknownPayload, Verified
from engramlog.eventlog.identifiers import event_ids_of, id_text, is_foreign
from engramlog.eventlog.kinds import (
    KINDS,
    REPLICATED,
    FactAsserted,
    FactErased,
    ForeignFact,
    Payload,
    RefusedEvent,
)
from engramlog.eventlog.log import StreamHead
from engramlog.eventlog.nesting import nests_deeper
from engramlog.eventlog.signing import SignedHeads, signature_fault
from engramlog.projections.cid import cid_of
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.projections.tables.peers.refused_events import is_misplaced
from engramlog.projections.writing.content_rules import content_fault
from engramlog.replay.federation.page import (
    PAGE_EVENTS_MAX,
    AnotherNode,
    ClockAwaited,
    PageFault,
    StreamPage,
)

ERASURE = "fact_erased"
HEADER_BYTES_MAX = 16 * 1024
ROTATIONS_MAX = 1_000
SCHEMA_VERSION_MAX = 65_535
HOUR_MS = 3_600_000
FUTURE_WAIT_MS_MAX = 24 * HOUR_MS
"""Events up to a day ahead wait; for later ones their stream is held."""
UNREADABLE = (
    msgspec.MsgspecError, KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError,
)  # fmt: skip
"""Errors from decoding a stranger's bytes."""


def check_statement(statement: SignedHeads, peer: PeerRow) -> None:
    """Raises PageFault unless the peer signed the statement with a valid key: the known one, or a
    later one by rotation; AnotherNode if another node states it."""
    if statement.node_id != peer.node_id:
        raise AnotherNode(
            "signature",
            f"{statement.node_id} answers at the address of {peer.node_id}: if it has taken its "
            "place, add it as a peer of its own",
        )
    if len(statement.rotations) > ROTATIONS_MAX:
        raise PageFault("oversized", f"the heads name over {ROTATIONS_MAX} rotations")
    replaced = {rotation.previous_public_key for rotation in statement.rotations}
    if peer.public_key != statement.public_key and peer.public_key not in replaced:
        raise PageFault("signature", "the heads are signed with a key that was replaced")
    fault = signature_fault(statement)
    if fault is not None:
        raise PageFault("signature", fault)


class CheckedPage(Struct, frozen=True):
    """The content of an acceptable page: its events, those that break a content rule, and the ids
    of the facts that the others state here."""

    events: tuple[Verified, ...]
    refused: tuple[RefusedEvent, ...]
    fact_ids: tuple[str, ...]


def check_page(
    page: StreamPage,
    peer: PeerRow,
    stream: str,
    before: StreamHead | None,
    now_us: int,
    own_id: str,
) -> CheckedPage:
    """Check that a page continues a stream of a peer, and that the peer may send its content.

    Args:
        before: the stream's end here; None for a new stream.
        now_us: this node's clock.
        own_id: this node.

    Raises:
        PageFault: ``signature``, ``chain``, ``scope``, ``kind``, ``hlc_skew``, ``oversized``,
            ``instruction``, ``withheld`` or ``malformed``.
        ClockAwaited: an event may only be taken later.
    """
    if page.stream != stream:
        raise PageFault("chain", f"asked for {stream}, got {page.stream}")
    if not 0 < len(page.events) <= PAGE_EVENTS_MAX:
        raise PageFault("oversized", f"a page holds 1 to {PAGE_EVENTS_MAX} events")
    if len(page.statement.heads) != 1:
        raise PageFault("signature", "a page signs one head, that of its last event")
    check_statement(page.statement, peer)
    check_stream(stream, peer)
    erased = frozenset(page.erased)
    head = before
    instructs = peer.grants is not None and peer.grants.instructions
    events: list[Verified] = []
    refused: list[RefusedEvent] = []
    fact_ids: list[str] = []
    for event in page.foreign():
        verified, due_us = _check_event(event, peer.node_id, stream, head, erased, now_us)
        header, payload = verified.header, verified.payload
        head = StreamHead(header.stream, header.stream_seq, event.hash)
        if due_us > now_us:
            raise ClockAwaited(f"{stream} event {head.stream_seq}", len(events), due_us)
        events.append(verified)
        # what a later release wrote is stored and chained, projected as nothing
        reason = _content_fault(header, payload, own_id) if isinstance(payload, Payload) else None
        if reason is not None:
            refused.append(RefusedEvent(head.stream_seq, reason))
        elif not instructs and _is_instruction(payload):
            raise PageFault("instruction", f"{stream}: the peer may not give instructions here")
        elif isinstance(payload, FactAsserted) and payload.foreign is None:
            fact_ids.append(payload.id or id_text(header.event_id))
    (signed,) = page.statement.heads
    if head is None or (signed.stream, signed.stream_seq, signed.hash) != (
        stream,
        head.stream_seq,
        head.hash.hex(),
    ):
        raise PageFault("signature", "the signed head is not that of the page's last event")
    return CheckedPage(tuple(events), tuple(refused), tuple(fact_ids))


def check_stream(stream: str, peer: PeerRow) -> None:
    """Raises PageFault ``scope``: the stream is not the peer's, or not granted to it."""
    parts = stream.removeprefix(f"{peer.node_id}/").split("/")
    own = stream.startswith(f"{peer.node_id}/") and len(parts) == 3
    if not own or not (parts[0].isascii() and parts[0].isdigit()):
        raise PageFault("scope", f"{stream} is no stream of {peer.node_id}")
    kind, name = parts[1], parts[2]
    grants = peer.grants
    allowed = grants is not None and (
        (kind == "scope" and name in grants.scopes and name in peer.allowed_scopes)
        or (kind == "garden" and name in grants.gardens)
    )
    if not allowed:
        raise PageFault("scope", f"{stream} is not granted to {peer.node_id}")


def _check_event(
    event: Foreign,
    node_id: str,
    stream: str,
    before: StreamHead | None,
    erased: frozenset[bytes],
    now_us: int,
) -> tuple[Verified, int]:
    """An event, decoded, and when it may be taken."""
    if len(event.header) > HEADER_BYTES_MAX or len(event.payload or b"") > PAYLOAD_BYTES_MAX:
        raise PageFault("oversized", "an event is larger than any may be")
    if nests_deeper(event.payload or b"", PAYLOAD_LEVELS_MAX):
        raise PageFault("malformed", f"a payload has over {PAYLOAD_LEVELS_MAX} levels")
    try:
        header = decode_header(event.header)
    except UNREADABLE as fault:
        raise PageFault("malformed", f"an event's header cannot be read: {fault}") from fault
    where = f"{header.stream} event {header.stream_seq}"
    if event.salt is not None and len(event.salt) != SALT_BYTES:
        raise PageFault("malformed", f"{where}: its salt has {len(event.salt)} bytes")
    missing = event.payload is None and event.salt is None
    if missing and (header.event_id not in erased or header.kind == ERASURE):
        raise PageFault("withheld", f"{where}: the payload is missing and no erasure names it")
    stored = Stored(1, 0, 0, None, event.header, event.hash, event.salt, event.payload)
    fault = link_fault(before, stored, header, erasable=missing)
    if fault is not None:
        raise PageFault("chain", fault)
    if header.origin != node_id:
        raise PageFault("scope", f"{where}: its origin is {header.origin}")
    if header.stream != stream:
        raise PageFault("scope", f"{where} does not belong to {stream}")
    if is_foreign(header.event_id, node_id):
        raise PageFault("scope", f"{where}: its id {id_text(header.event_id)} is of another origin")
    if header.causation_id is not None and len(header.causation_id) != EVENT_ID_BYTES:
        raise PageFault("malformed", f"{where}: its cause is no event id")
    if header.schema_version > SCHEMA_VERSION_MAX:
        raise PageFault("malformed", f"{where}: no schema has version {header.schema_version}")
    due_us = _due_us(header, where, now_us)
    payload = None if event.payload is None else _read(header, event.payload, where)
    return Verified(event, header, payload), due_us


def _due_us(header: Header, where: str, now_us: int) -> int:
    """When an event may be taken: its clock readings may then be a little ahead; old ones are
    accepted. Raises PageFault ``hlc_skew`` for a reading too far ahead."""
    due_us = 0
    for reading_ms in (header.hlc // COUNTER_LIMIT, header.recorded_at // 1000):
        ahead_ms = reading_ms - now_us // 1000
        if ahead_ms > FUTURE_WAIT_MS_MAX:
            ahead = f"{where}: its clock is {ahead_ms // HOUR_MS} hours ahead of ours"
            raise PageFault(
                "hlc_skew", f"{ahead}: correct the wrong clock; it is taken once ours has caught up"
            )
        if reading_ms < 0:
            raise PageFault("hlc_skew", f"{where}: its clock is before 1970")
        due_us = max(due_us, (reading_ms - FUTURE_SKEW_MS_MAX) * 1000)
    return due_us


def _is_instruction(payload: Payload | UnknownPayload | None) -> bool:
    """Whether an event states an instruction."""
    return isinstance(payload, FactAsserted) and payload.value.interpret_as == "instruction"


def _read(header: Header, data: bytes, where: str) -> Payload | UnknownPayload:
    """An event's payload."""
    if header.kind in KINDS and header.kind not in REPLICATED:
        raise PageFault("kind", f"{where}: {header.kind} never leaves its node")
    try:
        payload = decode_payload(header, data)
        if isinstance(payload, UnknownPayload):
            check_unknown(header, data)
    except UNREADABLE as fault:
        raise PageFault("malformed", f"{where}: {fault}") from fault
    if header.kind == ERASURE:
        _check_erasure(payload, data, where)
    if isinstance(payload, Payload) and is_misplaced(header, payload):
        raise PageFault("scope", f"{where}: it belongs to another scope or garden")
    return payload


def _check_erasure(payload: Payload | UnknownPayload, data: bytes, where: str) -> None:
    """Raises PageFault unless an erasure is spelt as nodes write it. The log's own tables read the
    names from its bytes, and must find the same ones."""
    if not isinstance(payload, FactErased):
        raise PageFault("kind", f"{where}: an erasure of a later release: upgrade this node")
    ids = {id_text(event_id) for event_id in event_ids_of(payload.events)}
    others = [text for text in payload.events if text not in ids]
    if encode_payload(payload) != data or event_ids_of(others):
        raise PageFault("malformed", f"{where}: the erasure is not spelt as nodes write it")


def _content_fault(header: Header, payload: Payload, own_id: str) -> str | None:
    """Why no write could have made this content; None if one could."""
    fault = content_fault(payload)
    if fault is not None or not isinstance(payload, FactAsserted):
        return fault
    if payload.cid != cid_of(payload):
        return "the content id is not that of the content"
    return None if payload.foreign is None else _wrapping_fault(header, payload.foreign, own_id)


def _wrapping_fault(header: Header, foreign: ForeignFact, own_id: str) -> str | None:
    """Why the peer cannot have taken a fact of a node without a log as this node takes them."""
    if foreign.node_id == own_id:
        return "only this node states its own facts"
    reading_ms, told_ms = foreign.hlc // COUNTER_LIMIT, foreign.recorded_at // 1000
    ahead_ms = max(reading_ms - header.recorded_at // 1000, told_ms - reading_ms)
    if min(reading_ms, told_ms) < 0 or ahead_ms > FUTURE_SKEW_MS_MAX:
        return "foreign has a time before 1970, or after that of its event"
    return None
