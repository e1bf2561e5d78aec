"""Which capabilities this node accepts now: trusted issuers and revocations."""

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.rights.capability_grant import Grant
from engramlog.projections.rights.capability_token import CapabilityInvalid, decode_bearer
from engramlog.projections.rights.capability_verification import VerifiedToken, fault_of, verify
from engramlog.projections.tables.declared.capabilities import CapabilityRow

VERIFIED_MAX = 1024


class Issuer(Struct, frozen=True):
    """A trusted node: its current key (base64), and the most that its tokens may allow."""

    public_key: str
    ceiling: Grant


class CapabilityRing:
    """The writer replaces it as a whole, so readers need no lock. Verified texts are cached, so
    each token's signatures are computed once. ``revoked``: ids of revocations by issuing node.
    Without it, no token is accepted. ``issued``: the token of an id that this node signed."""

    def __init__(
        self,
        revoked: Mapping[str, Collection[str]] | None = None,
        issued: Callable[[str], CapabilityRow | None] = lambda _: None,
    ) -> None:
        self._revoked = revoked
        self._issued = issued
        self._verified = Remembered(VERIFIED_MAX)
        self._rows = Remembered(VERIFIED_MAX)

    def accept(
        self, text: str, issuers: Mapping[str, Issuer], now_us: int
    ) -> tuple[VerifiedToken, Grant]:
        """A token's claims, and the rights it gives here. Raises CapabilityInvalid: the token is
        not valid; ``args[0]`` is ``token_expired``, ``token_revoked``, ``token_invalid`` or
        ``token_issuer_unknown``."""
        verified = self.read(text)
        issuer = issuers.get(verified.node_id)
        if issuer is None:
            raise CapabilityInvalid("token_issuer_unknown")
        if self._revoked is None:
            raise CapabilityInvalid("token_invalid")
        if verified.public_key != issuer.public_key and not self._is_recorded(verified):
            # A retired key signed it: a thief of that key could sign tokens that were never issued.
            raise CapabilityInvalid("token_invalid")
        fault = fault_of(verified, now_us, self.revoked(verified.node_id))
        grant = verified.grant.meeting(issuer.ceiling)
        if fault is not None or grant.empty:
            raise CapabilityInvalid(fault or "token_invalid")
        return verified, grant

    def read(self, text: str) -> VerifiedToken:
        """A token's claims, by any signer. Raises CapabilityInvalid ``token_invalid``."""
        verified: VerifiedToken | None = self._verified.get(text)
        if verified is None:
            try:
                verified = verify(decode_bearer(text))
            except CapabilityInvalid as fault:
                raise CapabilityInvalid("token_invalid", str(fault)) from fault
            self._verified.put(text, verified)
        return verified

    def revoked(self, node_id: str) -> Collection[str]:
        """Ids of a node's revocations."""
        return () if self._revoked is None else self._revoked.get(node_id, ())

    def get(self, token_id: str) -> CapabilityRow | None:
        """The token of this id that this node signed, revoked or not."""
        row: CapabilityRow | None = self._rows.get(token_id) or self._issued(token_id)
        if row is not None:
            self._rows.put(token_id, row)
        return row

    def _is_recorded(self, verified: VerifiedToken) -> bool:
        row = self.get(verified.token_id)
        return row is not None and row.token_sha256 == verified.digest.hex()
