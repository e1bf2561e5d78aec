"""Streams made by hand, with content that no honest node would write."""

import base64
from pathlib import Path
from typing import Any, Literal

import msgspec

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import (
    ZERO_HASH,
    encode_header,
    encode_payload,
    header_hash,
    payload_hash,
)
from engramlog.eventlog.event import Header, scope_partition, stream_name
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.eventlog.log import StreamHead
from engramlog.eventlog.signing import SignedHeads
from engramlog.projections.cid import with_cid
from engramlog.replay.federation.page import PAGE_FORMAT, Row, StreamPage
from engramlog.replay.federation.serving import signed_streams
from engramlog.replay.stigmem.peer_token import sign_peer_token

Scope = Literal["local", "team", "company", "public"]
SALT = b"s" * 16


def stated(text: str, scope: Scope = "company", **fields: Any) -> FactAsserted:
    """A fact that passes the content rules; ``fields`` replace its fields."""
    made = FactAsserted(
        entity="user:a", relation="memory:role", value=Value("string", text), source="agent:f",
        scope=scope,
    )  # fmt: skip
    return with_cid(msgspec.structs.replace(made, **fields))


class Forger:
    """A real key, and streams whose every byte the test decides."""

    def __init__(self, folder: Path, clock: FixedClock) -> None:
        self.clock = clock
        self.identity = Identity.create(folder, clock)
        self.streams: dict[str, list[Row]] = {}
        self._identifiers = IdentifierSource(self.id)

    @property
    def id(self) -> str:
        return self.identity.node_id

    def stream(self, scope: str = "company") -> str:
        return stream_name(self.id, 1, scope_partition(scope))

    def token(self, target: str, *scopes: str, ahead_ms: int = 0, nonce: str = "") -> str:
        """A peer token signed now, or at another time."""
        now_ms = self.clock.now_us() // 1000 + ahead_ms
        wanted = scopes or ("company", "public")
        return sign_peer_token(self.identity, target, wanted, now_ms, nonce=nonce)

    def state(self, text: str, scope: Scope = "company", **header: Any) -> None:
        """Add a fact; ``header`` replaces fields of its header."""
        payload = encode_payload(stated(text, scope))
        self.add(payload, scope=scope, **header)

    def add(
        self, payload: bytes, *, kind: str = "fact_asserted", scope: str = "company",
        schema_version: int = 3, **header: Any,
    ) -> None:  # fmt: skip
        """Any bytes as the next event of a scope's stream."""
        rows = self.streams.setdefault(self.stream(scope), [])
        made = Header(
            format=1,
            event_id=self._identifiers.next(self.clock.now_us()),
            origin=self.id,
            stream=self.stream(scope),
            stream_seq=len(rows) + 1,
            kind=kind,
            schema_version=schema_version,
            hlc=self.clock.now_us() // 1000 * 1000 + len(rows),
            recorded_at=self.clock.now_us(),
            actor="agent:f",
            causation_id=None,
            idempotency_key=None,
            prev_hash=rows[-1][1] if rows else ZERO_HASH,
            payload_hash=payload_hash(SALT, payload),
        )
        encoded = encode_header(msgspec.structs.replace(made, **header))
        rows.append((encoded, header_hash(encoded), SALT, payload))

    def heads(self) -> SignedHeads:
        """The forger's signed heads of all its streams."""
        heads = {
            name: StreamHead(name, len(rows), rows[-1][1]) for name, rows in self.streams.items()
        }
        return signed_streams(self.identity, heads, self.clock.now_us())

    def page(self, stream: str, after: int, limit: int) -> StreamPage | None:
        """A page as an honest server would send it."""
        rows = self.streams.get(stream, [])[after : after + limit]
        if not rows:
            return None
        head = StreamHead(stream, after + len(rows), rows[-1][1])
        statement = signed_streams(self.identity, {stream: head}, self.clock.now_us())
        return StreamPage(PAGE_FORMAT, stream, rows, statement, [])

    @property
    def wire_key(self) -> str:
        """The public key in the protocol's form."""
        raw = base64.b64decode(self.identity.public_key_b64)
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")
