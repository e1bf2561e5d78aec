"""Peers and what they send: declarations, approval, pages of events, and what these end."""

from __future__ import annotations

import json
from itertools import groupby

from eventlog.codec import decode_header, decode_payload
from eventlog.event import NODE_STREAM, Draft, Foreign
from eventlog.identifiers import id_text
from eventlog.kinds import (
    ConflictResolved,
    FactAsserted,
    FactRetracted,
    PeerDeclared,
    PeerEquivocated,
    PeerPageReceived,
    PeerStateSet,
)
from projections import intents as ask
from projections.database import query_one
from projections.deciding.context import Adoption, Context, Decision
from projections.deciding.erasing import foreign_erasures
from projections.foreign_ends import Claim, taking_effect
from projections.intents import Refused

_PEER_OF_NODE = """
SELECT state FROM peers WHERE node_id=? AND state IN ('pending', 'active')
"""
_STATE = "SELECT state FROM peers WHERE peer_id=?"
_ACTIVE = "SELECT grants FROM peers WHERE node_id=? AND state='active'"
_HELD = "SELECT held FROM peer_streams WHERE stream=?"
_TAKEN = "SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1"
REPLAYED = "replayed from a peer"


def declare_peer(intent: ask.DeclarePeer, context: Context) -> Decision | Refused:
    """Register a declaration, unless the node is a peer already or asks to be one."""
    known = query_one(context.db, _PEER_OF_NODE, (intent.node_id,))
    if known is not None:
        return Refused("peer_exists", f"peer already registered (status={known[0]})")
    declared = PeerDeclared(
        peer_id=intent.peer_id,
        node_id=intent.node_id,
        node_url=intent.node_url,
        public_key=intent.public_key,
        allowed_scopes=list(intent.allowed_scopes),
        signed_at=intent.signed_at,
        signature=intent.signature,
        fault=intent.fault,
    )
    return Decision([context.draft(declared)])


def set_peer_state(intent: ask.SetPeerState, context: Context) -> Decision | Refused:
    """Approve, revoke or change a peer, or hold or release a stream."""
    known = query_one(context.db, _STATE, (intent.peer_id,))
    if known is None:
        return Refused("peer_not_found", "no such peer")
    if known[0] in ("rejected", "revoked"):
        return Refused("peer_not_pending", f"the peer is {known[0]}; it must be declared anew")
    change = PeerStateSet(
        peer_id=intent.peer_id,
        state=intent.state,
        grants=intent.grants,
        public_key=intent.public_key,
        node_url=intent.node_url,
        stream=intent.stream,
        held=intent.held,
        reason=intent.reason,
    )
    return Decision([context.draft(change)])


def adopt_page(intent: ask.AdoptPage, context: Context) -> Decision | Refused:
    """Take in a page of an approved peer's stream that is not held."""
    if query_one(context.db, _ACTIVE, (intent.node_id,)) is None:
        return Refused("peer_not_approved", f"{intent.node_id} is not an approved peer")
    held = query_one(context.db, _HELD, (intent.stream,))
    if held is not None and held[0]:
        return Refused("stream_held", f"stream {intent.stream} is held")
    taken = query_one(context.db, _TAKEN, (json.dumps(_fact_ids(intent.events)),))
    if taken is not None:
        return Refused("fact_id_taken", f"a fact {taken[0]} is here already, of another event")
    received = PeerPageReceived(
        node_id=intent.node_id,
        stream=intent.stream,
        first_seq=intent.first_seq,
        last_seq=intent.first_seq + len(intent.events) - 1,
        statement=intent.statement,
    )
    adoption = Adoption(intent.node_id, intent.events, intent.erasable)
    return Decision([context.draft(received)], adoption=adoption)


def _fact_ids(events: tuple[Foreign, ...]) -> list[str]:
    """Ids of the facts that the events state."""
    found: list[str] = []
    for event in events:
        header = decode_header(event.header)
        if header.kind == "fact_asserted" and event.payload is not None:
            fact = decode_payload(header, event.payload)
            if isinstance(fact, FactAsserted) and fact.foreign is None:
                found.append(fact.id or id_text(header.event_id))
    return found


def take_foreign_ends(_: ask.TakeForeignEnds, context: Context) -> Decision:
    """A local event for every event of others whose claims may take effect."""
    drafts: list[Draft] = []
    claims = sorted(taking_effect(context.db), key=_order)
    for (event_id, ending), group in groupby(claims, key=_order):
        of_event = list(group)
        facts = [claim.fact_id for claim in of_event]
        if ending == "retracted":
            ended: FactRetracted | ConflictResolved = FactRetracted(fact_ids=facts, reason=REPLAYED)
        else:
            first = of_event[0]
            ended = ConflictResolved(
                conflict_id=first.conflict_id or "",
                winner_id=first.winner_id or "",
                loser_ids=facts,
                resolution_fact_id=first.resolution_fact_id or "",
                note=REPLAYED,
            )
        drafts.append(context.draft(ended, NODE_STREAM, event_id))
    drafts += foreign_erasures(context)
    return Decision(drafts, created=bool(drafts))


def _order(claim: Claim) -> tuple[bytes, str]:
    return claim.event_id, claim.ending


def note_equivocation(intent: ask.NoteEquivocation, context: Context) -> Decision:
    """Evidence, and the stream held until an operator releases it."""
    evidence = PeerEquivocated(
        node_id=intent.node_id,
        stream=intent.stream,
        sort=intent.sort,
        detail=intent.detail,
        earlier=intent.earlier,
        later=intent.later,
    )
    held = PeerStateSet(
        peer_id=intent.peer_id, stream=intent.stream, held=True, reason=intent.detail
    )
    return Decision([context.draft(evidence), context.draft(held)])
