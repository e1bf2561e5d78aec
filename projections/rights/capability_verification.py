"""Whether a capability is valid: signatures, narrowing, expiry and revocation, without a node.

No check needs a request: a token carries the key that signed it, and the issuing node's id is
derived from its first key. The caller decides which issuers to trust (``ring``).
"""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from engramlog.eventlog.identity import signed_by, speaks_for
from engramlog.projections.moment import parse_instant
from engramlog.projections.rights.capability_grant import (
    EVERY_VERB,
    OBJECT_ROOT,
    Grant,
    parse_grant,
)
from engramlog.projections.rights.capability_token import (
    BLOCKS_MAX,
    LIFETIME_US_MAX,
    TOKEN_VERSION,
    Block,
    Capability,
    CapabilityInvalid,
    Root,
    block_bytes,
    canonical_text,
    digests,
    fields_of,
    from_url_text,
    public_of,
    signs,
)

SKEW_US = 60_000_000
"""How far an issuing node's clock may be ahead."""


class VerifiedToken(Struct, frozen=True):
    """A token with valid signatures, and its rights after all narrowing. ``revocation_ids`` are the
    token id and the digest (hex) of every block: revoking one revokes it and everything derived
    from it. Times in microseconds."""

    token_id: str
    node_id: str
    public_key: str
    issuer: str
    subject: str
    grant: Grant
    issued_at_us: int
    expires_at_us: int
    digest: bytes
    revocation_ids: tuple[str, ...]


def verify(capability: Capability) -> VerifiedToken:
    """Check a token's cryptography and return its rights. Raises CapabilityInvalid: a signature,
    form or proof is not valid."""
    try:
        # From the same dictionary that is checked: a repeated key must not be read two ways.
        root = msgspec.convert(fields_of(capability.root), Root)
        if root.token_version != TOKEN_VERSION:
            raise CapabilityInvalid(f"token version {root.token_version} is not known here")
        _check_root(capability, root)
        grant, issued_at_us = parse_grant(root.verb, root.object), parse_instant(root.issued_at)
        expires_at_us = parse_instant(root.expiry)
        if not issued_at_us < expires_at_us <= issued_at_us + LIFETIME_US_MAX:
            raise CapabilityInvalid("the token lives for no time, or for more than 90 days")
        chain = digests(capability)
        key = root.next_key
        if len(capability.blocks) > BLOCKS_MAX:
            raise CapabilityInvalid(f"the token has more than {BLOCKS_MAX} blocks")
        for before, text in zip(chain, capability.blocks, strict=False):
            block = msgspec.json.decode(text, type=Block)
            if not signs(key, block.signature, block_bytes(before, block)):
                raise CapabilityInvalid("a block is not signed by the key before it")
            grant = _narrow_grant(grant, block)
            if block.expiry:
                expires_at_us = min(expires_at_us, parse_instant(block.expiry))
            key = block.next_key
        _check_proof(key, capability.proof)
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError) as fault:
        raise CapabilityInvalid(str(fault)) from fault
    return VerifiedToken(
        root.token_id,
        root.node_id,
        root.public_key,
        root.issuer,
        root.subject,
        grant,
        issued_at_us,
        expires_at_us,
        chain[0],
        (root.token_id, *(digest.hex() for digest in chain[1:])),
    )


def fault_of(verified: VerifiedToken, now_us: int, revoked: Collection[str] = ()) -> str | None:
    """Why a verified token is not valid now: ``token_expired``, ``token_revoked`` or
    ``token_invalid`` (issued in the future, or without rights); None if it is valid."""
    if any(name in revoked for name in verified.revocation_ids):
        return "token_revoked"
    if verified.expires_at_us <= now_us:
        return "token_expired"
    if verified.issued_at_us > now_us + SKEW_US or verified.grant.empty:
        return "token_invalid"
    return None


def _check_root(capability: Capability, root: Root) -> None:
    if not speaks_for(root.node_id, root.public_key, root.rotations):
        raise CapabilityInvalid(f"the token's key does not speak for {root.node_id or 'any node'}")
    signature = from_url_text(root.signature)
    if not signed_by(root.public_key, signature, canonical_text(capability.root)):
        raise CapabilityInvalid("the token is not signed by the node that it names")


def _check_proof(key: str, proof: bytes) -> None:
    """Check the proof: a token with blocks cut off lacks the secret of its new last key. A closed
    token has neither key nor proof."""
    if key != (public_of(proof) if proof else ""):
        raise CapabilityInvalid("the token does not prove that it is whole")


def _narrow_grant(grant: Grant, block: Block) -> Grant:
    if not block.verb and not block.object:
        return grant
    return grant.meeting(parse_grant(block.verb or EVERY_VERB, block.object or OBJECT_ROOT))
