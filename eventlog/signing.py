"""Signed stream heads: a node's signed statement of where its streams end.

A chain cannot detect that its own tail was cut off; heads kept elsewhere can. Two valid statements
of one node that contradict each other prove that it has two histories.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from engramlog.eventlog.durable_file import replace
from engramlog.eventlog.errors import EventLogError
from engramlog.eventlog.identity import Identity, Rotation, signed_by, speaks_for
from engramlog.eventlog.log import Head, StreamHead

HEADS_CONTEXT = b"engramlog/signed-heads/1\n"
HEADS_BYTES_MAX = 64 * 1024 * 1024

_canonical = msgspec.json.Encoder(order="sorted")


class SignedHead(Struct, frozen=True):
    """The end of one stream; ``hash`` in hex."""

    stream: str
    stream_seq: int
    hash: str


class SignedHeads(Struct, frozen=True):
    """A node's signed statement about its streams at ``position``. ``rotations`` lead from the key
    that ``node_id`` comes from to ``public_key``."""

    node_id: str
    epoch: int
    public_key: str
    issued_at_us: int
    position: int
    heads: list[SignedHead]
    signature: str = ""
    rotations: list[Rotation] = field(default_factory=list)


def signed_bytes(heads: SignedHeads) -> bytes:
    """The signed bytes: a context line and canonical JSON (sorted, no spaces, empty signature)."""
    return HEADS_CONTEXT + _canonical.encode(msgspec.structs.replace(heads, signature=""))


def sign_heads(
    identity: Identity, head: Head, streams: Mapping[str, StreamHead], issued_at_us: int
) -> SignedHeads:
    """The node's statement that its log ends at ``head`` and its streams at ``streams``."""
    unsigned = SignedHeads(
        identity.node_id,
        identity.epoch,
        identity.public_key_b64,
        issued_at_us,
        head.position,
        [
            SignedHead(name, streams[name].stream_seq, streams[name].hash.hex())
            for name in sorted(streams)
        ],
        rotations=list(identity.rotations),
    )
    signature = base64.b64encode(identity.sign(signed_bytes(unsigned))).decode("ascii")
    return msgspec.structs.replace(unsigned, signature=signature)


def signature_fault(heads: SignedHeads, public_keys: frozenset[str] | None = None) -> str | None:
    """Why the statement is not the node's; None if it is. ``public_keys``: the trusted keys
    (base64) of this node; without them the node id itself decides, since it comes from the node's
    first key."""
    try:
        if not signed_by(heads.public_key, base64.b64decode(heads.signature), signed_bytes(heads)):
            return "the signature of the exported heads does not hold"
    except ValueError as fault:
        return f"the exported heads hold no key or signature: {fault}"
    if public_keys is not None:
        known = heads.public_key in public_keys
    else:
        known = speaks_for(heads.node_id, heads.public_key, heads.rotations)
    return None if known else f"the key of the exported heads does not speak for {heads.node_id}"


def write_heads(path: Path, heads: SignedHeads) -> None:
    """Export a statement to a file (canonical JSON, mode 0600), replacing an older one."""
    replace(path, _canonical.encode(heads) + b"\n")


def read_heads(path: Path) -> SignedHeads:
    """A statement from a file; does not check its signature. Raises EventLogError."""
    try:
        if path.stat().st_size > HEADS_BYTES_MAX:
            raise EventLogError(f"{path} is over {HEADS_BYTES_MAX} bytes")
        return msgspec.json.decode(path.read_bytes(), type=SignedHeads)
    except (OSError, ValueError) as fault:
        raise EventLogError(f"cannot read signed heads from {path}: {fault}") from fault
