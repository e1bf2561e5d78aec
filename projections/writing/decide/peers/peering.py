"""Peers: declarations, approval, pages of events, and the facts that these end."""

import json
from itertools import groupby

import msgspec

from engramlog.eventlog.event import NODE_STREAM, Draft
from engramlog.eventlog.kinds import (
    ConflictResolved,
    FactRetracted,
    PeerDeclared,
    PeerGrants,
    PeerPageReceived,
    PeerStateSet,
)
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.peers.remote_retractions import Claim, taking_effect
from engramlog.projections.writing import peer_commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.content_rules import CONTENT_RULES
from engramlog.projections.writing.decide.context import Adoption, Context, Decision
from engramlog.projections.writing.decide.facts.erasing import foreign_erasures, late_copies
from engramlog.projections.writing.decide.facts.tombstoning import regranted

_PEER_OF_NODE = """
SELECT state FROM peers WHERE node_id=? AND state IN ('pending', 'active')
"""
_SAME_FAULT = "SELECT 1 FROM peers WHERE node_id=? AND state='rejected' AND reason=?"
_REJECTED = "SELECT count(*) FROM peers WHERE state='rejected'"
REJECTED_MAX = 100
"""The most rejected declarations kept; further ones are answered and not stored."""
_STATE = "SELECT state, node_id FROM peers WHERE peer_id=?"
_ACTIVE = "SELECT grants FROM peers WHERE node_id=? AND state='active'"
_STREAM = "SELECT held, last_seq FROM peer_streams WHERE stream=?"
_TAKEN = "SELECT id FROM fact_rows WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1"
_LOSERS = "(SELECT value FROM json_each(:losers))"
_SETTLED = f"""
SELECT 1 FROM denials
WHERE conflict_id = :dispute AND (fact_id IN {_LOSERS} OR marker_id IN {_LOSERS})
UNION ALL
SELECT 1 FROM conflicts JOIN fact_rows AS side ON side.id IN (fact_id, opened_by)
JOIN fact_rows AS winner ON winner.id = :winner
WHERE conflict_id = :dispute AND winner.entity = side.entity AND winner.relation = side.relation
  AND winner.scope = side.scope AND winner.garden_id IS side.garden_id
  AND EXISTS (
    SELECT 1 FROM fact_rows AS lost
    WHERE lost.id IN {_LOSERS} AND lost.entity = side.entity AND lost.relation = side.relation
      AND lost.scope = side.scope AND lost.garden_id IS side.garden_id
      AND lost.value_type = side.value_type AND lost.value_v = side.value_v)
  AND NOT EXISTS (
    SELECT 1 FROM fact_rows AS kept
    WHERE kept.entity = side.entity AND kept.relation = side.relation
      AND kept.scope = side.scope AND kept.garden_id IS side.garden_id
      AND kept.value_type = side.value_type AND kept.value_v = side.value_v
      AND kept.to_position = {LIVE} AND kept.set_aside = {LIVE} AND kept.base_confidence > 0
      AND kept.id NOT IN {_LOSERS})
"""
"""Whether a dispute ends once these facts are set aside: a denial's fact or record is among them,
or every live fact of a side's value."""
_OWN_NOTE = "SELECT 1 FROM fact_rows WHERE id=? AND origin=?"
_decode_grants = msgspec.json.Decoder(PeerGrants).decode
REPLAYED = "replayed from a peer"
GRANTS_CHANGED = "grants_changed"
TAKEN_MEANWHILE = "taken_meanwhile"


def declare_peer(command: PeerDeclared, context: Context) -> Decision | Refused:
    """Register a declaration, unless the node is already a peer or an applicant."""
    known = query_one(context.db, _PEER_OF_NODE, (command.node_id,))
    if known is not None:
        return Refused("peer_exists", f"peer already registered (status={known[0]})")
    if command.fault:
        same = query_one(context.db, _SAME_FAULT, (command.node_id, command.fault))
        (rejected,) = query_one(context.db, _REJECTED) or (0,)
        if same is not None or rejected >= REJECTED_MAX:
            return Decision([], created=False)
    return Decision([context.draft(command)])


def set_peer_state(command: PeerStateSet, context: Context) -> Decision | Refused:
    """Approve, revoke or change a peer, or hold or release a stream. The same commit applies new
    grants to the peer's tombstones."""
    known = query_one(context.db, _STATE, (command.peer_id,))
    if known is None:
        return Refused("peer_not_found", "no such peer")
    if known[0] in ("rejected", "revoked"):
        return Refused("peer_not_pending", f"the peer is {known[0]}; declare it again")
    drafts = [context.draft(command)]
    if command.grants is not None:
        drafts += regranted(known[1], command.grants, context)
    return Decision(drafts)


def adopt_page(command: ask.AdoptPage, context: Context) -> Decision | Refused:
    """Append a page of an approved peer's stream, unless the stream is held. The page was verified
    without a lock: since then the peer's grants may have changed, or another node over the log may
    have taken it."""
    active = query_one(context.db, _ACTIVE, (command.node_id,))
    if active is None:
        return Refused("peer_not_approved", f"{command.node_id} is not an approved peer")
    if active[0] is None or _decode_grants(active[0]) != command.grants:
        return Refused(GRANTS_CHANGED, f"{command.node_id} has other grants now")
    held, last_seq = query_one(context.db, _STREAM, (command.stream,)) or (0, 0)
    if held:
        return Refused("stream_held", f"stream {command.stream} is held")
    if last_seq >= command.first_seq:
        return Refused(TAKEN_MEANWHILE, f"{command.stream} is known up to {last_seq} by now")
    taken = query_one(context.db, _TAKEN, (json.dumps(command.fact_ids),))
    if taken is not None:
        return Refused("fact_id_taken", f"fact {taken[0]} exists already, from another event")
    received = PeerPageReceived(
        node_id=command.node_id,
        stream=command.stream,
        first_seq=command.first_seq,
        last_seq=command.first_seq + len(command.events) - 1,
        statement=command.statement,
        rules=CONTENT_RULES,
        refused=list(command.refused),
    )
    adoption = Adoption(command.node_id, command.events)
    return Decision([context.draft(received)], adoption=adoption)


def take_foreign_ends(_: ask.TakeForeignEnds, context: Context) -> Decision:
    """A local event for each foreign event whose claims may take effect."""
    drafts: list[Draft] = []
    claims = sorted(taking_effect(context.db), key=_order)
    for (event_id, ending), group in groupby(claims, key=_order):
        of_event = list(group)
        facts = [claim.fact_id for claim in of_event]
        if ending == "retracted":
            ended: FactRetracted | ConflictResolved = FactRetracted(fact_ids=facts, reason=REPLAYED)
        else:
            ended = _resolution(of_event[0], facts, context)
        drafts.append(context.draft(ended, NODE_STREAM, event_id))
    drafts += foreign_erasures(context)
    drafts += late_copies(context)
    return Decision(drafts, created=bool(drafts))


def _resolution(claim: Claim, losers: list[str], context: Context) -> ConflictResolved:
    """A peer's resolution, as far as it may set facts aside. What else it names need not fit: it
    settles only a dispute that ends with these facts, and its note is a fact of its node."""
    winner = claim.winner_id or ""
    asked = {"dispute": claim.conflict_id, "winner": winner, "losers": json.dumps(losers)}
    settles = query_one(context.db, _SETTLED, asked) is not None
    noted = query_one(context.db, _OWN_NOTE, (claim.resolution_fact_id, claim.origin)) is not None
    return ConflictResolved(
        conflict_id=claim.conflict_id if settles and claim.conflict_id else "",
        winner_id=winner,
        loser_ids=losers,
        resolution_fact_id=claim.resolution_fact_id if noted and claim.resolution_fact_id else "",
        note=REPLAYED,
    )


def _order(claim: Claim) -> tuple[bytes, str]:
    return claim.event_id, claim.ending


def note_equivocation(command: ask.NoteEquivocation, context: Context) -> Decision:
    """Record the evidence and hold the stream until an operator releases it."""
    evidence = command.evidence
    held = PeerStateSet(
        peer_id=command.peer_id, stream=evidence.stream, held=True, reason=evidence.detail
    )
    return Decision([context.draft(evidence), context.draft(held)])
