"""Commands that take what other nodes sent (see ``commands``)."""

from typing import Any

from engramlog.eventlog.event import Verified
from engramlog.eventlog.kinds import (
    FactAsserted,
    OrgManifestSet,
    PeerEquivocated,
    PeerGrants,
    RefusedEvent,
    RefusedFact,
)
from engramlog.projections.writing.commands import OwnShape


class AdoptPage(OwnShape, frozen=True, kw_only=True):
    """Append verified events of one stream of a peer. ``grants`` are those of the verification,
    ``statement`` is the peer's signed head; ``fact_ids`` are the facts that the events state."""

    node_id: str
    grants: PeerGrants | None
    stream: str
    first_seq: int
    events: tuple[Verified, ...]
    fact_ids: tuple[str, ...]
    statement: dict[str, Any]
    refused: tuple[RefusedEvent, ...] = ()


class TakeForeignEnds(OwnShape, frozen=True):
    """Apply other nodes' ends of facts, where they may take effect."""


class NoteEquivocation(OwnShape, frozen=True, kw_only=True):
    """Store evidence that a peer contradicted itself, and hold the stream."""

    peer_id: str
    evidence: PeerEquivocated


class ReceiveForeign(OwnShape, frozen=True, kw_only=True):
    """Take a page of facts from a foreign node. ``facts`` are checked and carry ``foreign``;
    ``refused`` failed the checks; ``cursor`` is empty for pushed facts; ``scope`` is the requested
    one."""

    node_id: str
    facts: tuple[FactAsserted, ...]
    refused: tuple[RefusedFact, ...] = ()
    cursor: str = ""
    scope: str = ""
    received: int


class PutManifest(OwnShape, frozen=True, kw_only=True):
    """A manifest with a valid signature, and the ``rotations`` it announces."""

    manifest: OrgManifestSet
    rotations: tuple[dict[str, Any], ...]
