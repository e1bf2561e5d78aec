"""What an event is: the hashed header, the draft before recording, the record after.

Events cannot form cycles, so the garbage collector need not follow them: every group of writes has
thousands.
"""

from msgspec import Struct

from engramlog.eventlog.kinds import Payload

NODE_STREAM = "node"
"""The partition of bookkeeping that never leaves the node."""


def scope_partition(scope: str) -> str:
    """The partition that holds the facts of one scope."""
    return f"scope/{scope}"


def garden_partition(garden_id: str) -> str:
    """The partition that holds the facts of one garden."""
    return f"garden/{garden_id}"


def fact_partition(scope: str, garden_id: str | None) -> str:
    """The stream of a fact of this scope and garden, and of events about it."""
    return scope_partition(scope) if garden_id is None else garden_partition(garden_id)


def stream_name(origin: str, epoch: int, partition: str) -> str:
    return f"{origin}/{epoch}/{partition}"


class Header(Struct, frozen=True, array_like=True, gc=False):
    """The hashed part of an event. Encoded as a MessagePack array, in this order."""

    format: int
    event_id: bytes
    origin: str
    stream: str
    stream_seq: int
    kind: str
    schema_version: int
    hlc: int
    recorded_at: int
    actor: str
    causation_id: bytes | None
    idempotency_key: str | None
    prev_hash: bytes
    payload_hash: bytes


class Draft(Struct, frozen=True, gc=False):
    """An event that a command decided on and no log has recorded yet."""

    payload: Payload
    partition: str
    event_id: bytes
    actor: str
    causation_id: bytes | None = None


class Stored(Struct, frozen=True, gc=False):
    """An event exactly as stored: the hashed bytes and the local columns. ``position``,
    ``received_at`` (microseconds), ``received_hlc`` and ``peer`` are this node's and outside the
    hash."""

    position: int
    received_at: int
    received_hlc: int
    peer: str | None
    header: bytes
    hash: bytes
    salt: bytes | None
    payload: bytes | None


class Foreign(Struct, frozen=True, gc=False):
    """An event of another node in transit: the hashed bytes, nothing local."""

    header: bytes
    hash: bytes
    salt: bytes | None
    payload: bytes | None


class UnknownPayload(Struct, frozen=True):
    """A payload of a kind or version that this release does not know; stored, projected as
    nothing."""

    kind: str
    schema_version: int


class Verified(Struct, frozen=True, gc=False):
    """Another node's event whose bytes agree with their hashes (``chain.link_fault``), decoded.
    ``payload`` is None only if an erasure names the event."""

    event: Foreign
    header: Header
    payload: Payload | UnknownPayload | None


class Recorded(Struct, frozen=True, gc=False):
    """A decoded event with its place in the log."""

    position: int
    received_at: int
    received_hlc: int
    peer: str | None
    header: Header
    hash: bytes
    payload: Payload | UnknownPayload | None

    @property
    def event_id(self) -> bytes:
        return self.header.event_id

    @property
    def kind(self) -> str:
        return self.header.kind
