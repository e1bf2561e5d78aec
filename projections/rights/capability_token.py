"""The bytes of a capability: a signed root, blocks that narrow it, and a proof of possession.

The root is the protocol's token JSON (wire 3.8), signed by the issuing node. It may name a
``next_key``. The holder of that key's secret can append a block that narrows the token and names
another key, without asking the node. Each block is signed over the digest of everything before it,
so no block can be dropped, changed or moved. The secret of the last key travels with the token and
proves that no block was cut off.
"""

import base64
import os
from hashlib import sha256
from typing import Any
from uuid import uuid4

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from engramlog.eventlog.identity import Identity, Rotation
from engramlog.projections.moment import DAY_US, format_instant
from engramlog.projections.rights.capability_grant import Grant

BEARER_PREFIX = "stigcap1."
BEARER_LENGTH_MAX = 6000
BLOCKS_MAX = 8
NONCE_BYTES = 32
LIFETIME_US_MAX = 90 * DAY_US
BLOCK_CONTEXT = b"engramlog/capability-block/1\n"
TOKEN_VERSION = 1

_canonical = msgspec.json.Encoder(order="sorted")


class CapabilityInvalid(Exception):
    """The text is not a valid capability; the message says why."""


class Root(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part that the issuing node signs. Times are RFC 3339, keys base64 (``next_key``
    url-safe)."""

    token_version: int
    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    issued_at: str
    expiry: str
    nonce: str
    node_id: str = ""
    public_key: str = ""
    next_key: str = ""
    rotations: list[Rotation] = []
    signature: str = ""


class Block(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One narrowing; empty fields leave the token unchanged."""

    verb: str = ""
    object: str = ""
    expiry: str = ""
    next_key: str = ""
    signature: str = ""


class Capability(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A token in transit: JSON texts as signed, and the last key's secret."""

    root: str
    blocks: list[str] = []
    proof: bytes = b""


def issue(
    identity: Identity,
    *,
    issuer: str,
    subject: str,
    grant: Grant,
    issued_at_us: int,
    expires_at_us: int,
    narrowable: bool = True,
    token_id: str | None = None,
) -> Capability:
    """A token signed by the node. With ``narrowable`` False, the root's JSON is the whole token."""
    secret = Ed25519PrivateKey.generate() if narrowable else None
    root = Root(
        token_version=TOKEN_VERSION,
        token_id=token_id or str(uuid4()),
        issuer=issuer,
        subject=subject,
        verb=grant.verb,
        object=grant.object,
        issued_at=format_instant(issued_at_us),
        expiry=format_instant(expires_at_us),
        nonce=os.urandom(NONCE_BYTES).hex(),
        node_id=identity.node_id,
        public_key=identity.public_key_b64,
        next_key="" if secret is None else to_url_text(_public(secret)),
        rotations=list(identity.rotations),
    )
    # Without a signature, which is its default and so left out.
    signature = to_url_text(identity.sign(_canonical.encode(root)))
    text = _canonical.encode(msgspec.structs.replace(root, signature=signature)).decode()
    return Capability(text, [], b"" if secret is None else _secret(secret))


def narrow(
    capability: Capability, *, grant: Grant | None = None, expires_at_us: int | None = None
) -> Capability:
    """The token with one more block; needs no node. Rights in the block beyond the token's have no
    effect. Raises CapabilityInvalid: it holds no secret to continue with, or has ``BLOCKS_MAX``
    blocks."""
    if not capability.proof:
        raise CapabilityInvalid("this token cannot be narrowed: it was issued without a next key")
    if len(capability.blocks) >= BLOCKS_MAX:
        raise CapabilityInvalid(f"this token has {BLOCKS_MAX} blocks already")
    try:
        holder = Ed25519PrivateKey.from_private_bytes(capability.proof)
    except ValueError as fault:
        raise CapabilityInvalid("the proof is no Ed25519 secret") from fault
    secret = Ed25519PrivateKey.generate()
    block = Block(
        verb="" if grant is None else grant.verb,
        object="" if grant is None else grant.object,
        expiry="" if expires_at_us is None else format_instant(expires_at_us),
        next_key=to_url_text(_public(secret)),
    )
    before = digests(capability)[-1]
    signature = holder.sign(block_bytes(before, block))
    text = _canonical.encode(msgspec.structs.replace(block, signature=to_url_text(signature)))
    return Capability(capability.root, [*capability.blocks, text.decode()], _secret(secret))


def encode_bearer(capability: Capability) -> str:
    """The token as one word for an Authorization header."""
    return BEARER_PREFIX + to_url_text(msgspec.msgpack.encode(capability))


def decode_bearer(text: str) -> Capability:
    """The token in a word, or in the bare JSON of a token without next key. Checks only its form.
    Raises CapabilityInvalid."""
    text = text.strip()
    if len(text) > BEARER_LENGTH_MAX:
        raise CapabilityInvalid(f"a token has at most {BEARER_LENGTH_MAX} characters")
    if text.startswith("{"):
        return Capability(text)
    if not text.startswith(BEARER_PREFIX):
        raise CapabilityInvalid(f"a token begins with {BEARER_PREFIX!r}")
    try:
        data = from_url_text(text[len(BEARER_PREFIX) :])
        return msgspec.msgpack.decode(data, type=Capability)
    except (ValueError, msgspec.MsgspecError) as fault:
        raise CapabilityInvalid(f"the token cannot be read: {fault}") from fault


def digests(capability: Capability) -> list[bytes]:
    """The digest of the root, then of everything up to and including each block."""
    chain = [sha256(capability.root.encode()).digest()]
    for block in capability.blocks:
        chain.append(sha256(chain[-1] + block.encode()).digest())
    return chain


def fields_of(text: str) -> dict[str, Any]:
    """The fields of a root's text. Raises CapabilityInvalid."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise CapabilityInvalid(f"the token is not a JSON object: {fault}") from fault


def canonical_text(text: str) -> bytes:
    """The signed bytes of a root's text, with any fields. Raises CapabilityInvalid."""
    fields = fields_of(text)
    fields.pop("signature", None)
    return _canonical.encode(fields)


def block_bytes(before: bytes, block: Block) -> bytes:
    """The signed bytes of a block: the context, the digest before it, and its canonical JSON."""
    unsigned = msgspec.structs.replace(block, signature="")
    return BLOCK_CONTEXT + before + _canonical.encode(unsigned)


def from_url_text(text: str) -> bytes:
    """Bytes of base64url text without padding. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as fault:
        raise ValueError("is not base64url") from fault


def signs(public_key: str, signature: str, message: bytes) -> bool:
    """Whether the key made the signature, both base64url without padding; not if malformed."""
    try:
        key = Ed25519PublicKey.from_public_bytes(from_url_text(public_key))
        key.verify(from_url_text(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_of(proof: bytes) -> str:
    """A secret's public key, in the form of ``next_key``. Raises ValueError."""
    return to_url_text(_public(Ed25519PrivateKey.from_private_bytes(proof)))


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _secret(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.Raw,
        serialization.PrivateFormat.Raw,
        serialization.NoEncryption(),
    )


def to_url_text(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
