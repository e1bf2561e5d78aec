"""The node itself: its epochs, keys, promotion from a replica, and answered requests."""

from typing import Literal

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import Payload


class EpochStarted(Payload, frozen=True, tag="epoch_started"):
    """The node's first event, and the first after a restore or an accepted copy."""

    node_id: str
    epoch: int
    public_key: str
    reason: Literal["created", "restored", "copied"] = "created"
    clock: Literal["wall", "file"] = "wall"


class NodeKeyRotated(Payload, frozen=True, tag="node_key_rotated"):
    """The node signs with a new key from now on; the old key vouches for it."""

    previous_public_key: str
    public_key: str
    signature: str


class ReplicaPromoted(Payload, frozen=True, tag="replica_promoted"):
    """The former replica writes under its own origin from now on. ``position``: the last one copied
    from the primary."""

    primary_node_id: str
    primary_url: str
    position: int


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one command: how many of the request's events are its own, the fact that
    answers it, and the facts it ended; or the reason of its refusal."""

    events: int = 0
    fact_id: str | None = None
    retracted: list[str] = field(default_factory=list)
    refused: str | None = None
    message: str = ""
    where: str | None = None


class RequestAnswered(Payload, frozen=True, tag="request_answered"):
    """The outcome of each command of a request with an ``Idempotency-Key``, in order. Recorded only
    if the request's events do not suffice: some commands wrote, and others did not."""

    outcomes: list[Outcome]
