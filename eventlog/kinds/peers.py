"""Other nodes: declarations, approval, and their events."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import Payload


class PeerGrants(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An approved peer's rights here.

    ``scopes`` and ``gardens`` (ids): what we serve to it and take from it. ``wire``: it speaks our
    replay of events, or only the protocol's federation of facts. ``pull``: we take, ``serve``: it
    may take. The other grants give its events effect on facts of others: ending them, settling
    their conflicts, erasing them; and let it state instructions.
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
    """Another node asks to become a peer; ``signature`` is that node's, over the declaration.
    ``fault``: why it was rejected at once, if it was."""

    peer_id: str
    node_id: str
    node_url: str
    public_key: str
    allowed_scopes: list[str]
    signed_at: str
    signature: str
    fault: str = ""


class PeerStateSet(Payload, frozen=True, tag="peer_state_set"):
    """A peer was approved or revoked, or its grants, key or address changed. With ``stream``, one
    stream of it was held (its events are refused, for ``reason``) or released. A null field is
    unchanged."""

    peer_id: str
    state: Literal["active", "revoked"] | None = None
    grants: PeerGrants | None = None
    public_key: str | None = None
    node_url: str | None = None
    stream: str | None = None
    held: bool | None = None
    reason: str = ""


class RefusedEvent(Struct, frozen=True, array_like=True):
    """An event of a page that has no meaning here, because its content breaks a rule."""

    stream_seq: int
    reason: str


class PeerPageReceived(Payload, frozen=True, tag="peer_page_received"):
    """Events of a peer's stream arrived and were verified; ``statement`` is its signed head.
    ``rules``: the version of the content rules that judged them; 0: none. ``refused``: those that
    break a rule; they are kept, chained, and projected as nothing."""

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
    """A refused foreign fact, with the reason."""

    fact_id: str
    code: str


class ForeignPageReceived(Payload, frozen=True, tag="foreign_page_received"):
    """The outcome of a page of facts from a node that speaks only the protocol's federation.
    ``cursor``: that node's cursor of the next page; empty for pushed facts. ``scope``: of the
    requested page; empty: all scopes, as in earlier releases."""

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
