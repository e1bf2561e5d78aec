"""Attestation: a source signs its facts, with a key registered here (wire 1.6).

The message is ``entity\\nrelation\\ntype\\nv\\nsource`` in UTF-8: entity and source as in the
request, ``v`` as the content id covers it. The signature is Ed25519, base64url without padding.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import ApiError
from engramlog.api.schemas.facts import AssertRequest
from engramlog.eventlog.kinds import Attestation, Value
from engramlog.projections.rights.capability_token import from_url_text

PUBLIC_KEY_BYTES = 32


def attestation_of(
    context: RequestContext, request: AssertRequest, value: Value
) -> Attestation | None:
    """The verified attestation of a request, if it has one. Raises ApiError 400 for an unknown or
    revoked key or a wrong signature, or if a required one is missing; 403 for a key of another
    entity."""
    given = request.attestation
    if given is None:
        check_unattested(context)
        return None
    key = context.node.reader.agent_keys.get(given.key_id)
    if key is None:
        raise ApiError(400, f"attestation.key_id {given.key_id!r} not found")
    if key.status == "revoked":
        raise ApiError(400, f"attestation.key_id {given.key_id!r} has been revoked")
    if key.entity_uri != context.caller.principal:
        raise ApiError(403, "attestation key belongs to a different entity")
    message = "\n".join((request.entity, request.relation, value.type, value.v, request.source))
    try:
        public_key = Ed25519PublicKey.from_public_bytes(decoded(key.public_key))
        public_key.verify(decoded(given.signature), message.encode())
    except (InvalidSignature, ValueError) as fault:
        raise ApiError(400, "attestation signature verification failed") from fault
    return Attestation(key.key_id, given.signature.rstrip("="))


def check_unattested(context: RequestContext) -> None:
    """Raises ApiError 400 if this node requires the source's signature on every fact."""
    if context.service.settings.attestation_required:
        message = "attestation required; register an agent key at POST /v1/auth/agent-keys"
        raise ApiError(400, message)


def decoded(text: str) -> bytes:
    """Bytes of base64url, with or without padding. Raises ValueError."""
    return from_url_text(text.rstrip("="))
