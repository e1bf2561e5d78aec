"""Other nodes: declared, approved, and what came from them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import Payload


class PeerGrants(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an approved peer may do here.

    ``scopes`` and ``gardens`` (ids) are both what we serve it and what we take from it;
    ``wire``: it speaks our replay of events, or only the protocol's of facts. ``pull``: we
    take, ``serve``: it may take. The others let its word count for facts of
    others: ending them, settling conflicts among them, erasing them; and give instructions.
    """

    scopes: list[str]
    gardens: list[str] = field(default_factory=list)
    wire: Literal["events", "facts"] = "events"
    pull: bool = True
    serve: bool = True
    retract_foreign: bool = False
    resolve_foreign: bool = False
    erase_foreign: bool = False
    instructions: bool = False


class PeerDeclared(Payload, frozen=True, tag="peer_declared"):
    """Another node wants to be a peer; ``signature`` is its own, over the declaration.

    ``fault`` is why it was rejected at once, if it was.
    """

    peer_id: str
    node_id: str
    node_url: str
    public_key: str
    allowed_scopes: list[str]
    signed_at: str
    signature: str
    fault: str = ""


class PeerStateSet(Payload, frozen=True, tag="peer_state_set"):
    """A peer was approved, revoked, granted more or less, or has another key or address.

    With ``stream``, one stream of it was held (its events are refused, for ``reason``) or
    released. What is null stays as it was.
    """

    peer_id: str
    state: Literal["active", "revoked"] | None = None
    grants: PeerGrants | None = None
    public_key: str | None = None
    node_url: str | None = None
    stream: str | None = None
    held: bool | None = None
    reason: str = ""


class RefusedEvent(Struct, frozen=True, array_like=True):
    """An event of a page that means nothing here, since its content breaks a rule."""

    stream_seq: int
    reason: str


class PeerPageReceived(Payload, frozen=True, tag="peer_page_received"):
    """Events of a peer's stream came and were verified; ``statement`` is its signed head.

    ``rules``: the version of the content rules by which they were judged; 0: none. ``refused``
    are those that break one: they are kept, chained, and projected as nothing.
    """

    version: ClassVar[int] = 2
    node_id: str
    stream: str
    first_seq: int
    last_seq: int
    statement: dict[str, Any]
    rules: int = 0
    refused: list[RefusedEvent] = field(default_factory=list)


class PeerEquivocated(Payload, frozen=True, tag="peer_equivocated"):
    """A peer contradicted what it had signed: both statements are the evidence."""

    node_id: str
    stream: str
    sort: Literal["equivocation", "rollback"]
    detail: str
    earlier: dict[str, Any]
    later: dict[str, Any]


class RefusedFact(Struct, frozen=True, array_like=True):
    """A foreign fact that was not taken, and why."""

    fact_id: str
    code: str


class ForeignPageReceived(Payload, frozen=True, tag="foreign_page_received"):
    """A page of facts came from a node that speaks only the protocol's federation, and what
    became of it. ``cursor``: where the next page begins, as that node wrote it; empty for
    facts that it pushed. ``scope``: of the requested page; empty: of all, as earlier
    releases asked."""

    version: ClassVar[int] = 2
    node_id: str
    cursor: str
    received: int
    accepted: int
    refused: list[RefusedFact] = field(default_factory=list)
    scope: str = ""


PeerPayload: TypeAlias = (
    PeerDeclared | PeerStateSet | PeerPageReceived | PeerEquivocated | ForeignPageReceived
)
