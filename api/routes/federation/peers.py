"""Peers over HTTP: approve, grant, revoke, list."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.client.discovery import EVENTS_WIRE, discovered
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, coded, invalid
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks.peering import ReplayState
from engramlog.api.schemas.values import Model, Position
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import PeerGrants, PeerStateSet, Scope
from engramlog.projections.audit.log_pages import LogFilter, newest_first
from engramlog.projections.audit.peering import Peering
from engramlog.projections.moment import format_instant
from engramlog.projections.normalization import URI_LENGTH_MAX
from engramlog.projections.tables.peers.peers import (
    EquivocationEvidence,
    PeerRow,
    PeerStream,
    load_evidence,
    load_peer_streams,
    load_peers,
)
from engramlog.projections.tables.peers.refused_events import RefusedRow, refused_of
from engramlog.projections.tables.peers.remote_retractions import waiting_ends
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.replay.federation.declaration import fingerprint, wire_key

routes = Routes("federation")


class GrantsBody(Model, extra="forbid"):
    """The rights of a peer here. ``scopes``: by default those of its declaration."""

    scopes: list[Scope] | None = None
    gardens: list[str] = Field(default=[], max_length=1_000)
    wire: Literal["events", "facts"] | None = None
    pull: bool = True
    serve: bool = True
    retract_foreign: bool = False
    resolve_foreign: bool = False
    erase_foreign: bool = False
    instructions: bool = False


class ApproveBody(Model, extra="allow"):
    """The fingerprint from the peer's operator, and the peer's grants."""

    pubkey_fingerprint: str = Field(min_length=1, max_length=100)
    grants: GrantsBody = GrantsBody()


class ReasonBody(Model, extra="forbid"):
    """The reason."""

    reason: str = Field(default="", max_length=1_000)


class ReleaseBody(Model, extra="forbid"):
    """The stream to resume; ``reason`` for the log."""

    stream: str = Field(min_length=1, max_length=URI_LENGTH_MAX)
    reason: str = Field(default="", max_length=1_000)


class PeerRecord(Struct):
    """A peer in brief. ``fault``: to admins, why this node does not take everything from it at
    present."""

    peer_id: str
    node_id: str
    node_url: str
    status: str
    allowed_scopes: list[str]
    established_at: str | None
    fault: str | None


class Peers(Struct):
    """Federation peers."""

    peers: list[PeerRecord]


class PeerApproved(Struct):
    """The peer is active."""

    peer_id: str
    node_id: str
    status: Literal["active"]
    approved_at: str


class PeerChanged(Struct):
    """The peer after the change."""

    peer_id: str
    node_id: str
    status: str


class ReplayedStream(Struct):
    """The replay state of a peer's stream; ``reason`` if it is ``held``."""

    stream: str
    last_seq: int
    received_at: str
    held: bool
    reason: str


class PeerDetail(PeerRecord):
    """A peer with its grants, streams, replay and evidence. ``waiting_ends``: how many facts here
    it ended without effect, by how (``retracted``, ``set aside``, ``erased``)."""

    reason: str
    pubkey_fingerprint: str
    grants: dict[str, Any] | None
    replay: ReplayState | None
    streams: list[ReplayedStream]
    refused: list[RefusedRow]
    waiting_ends: dict[str, int]
    evidence: list[EquivocationEvidence]


class PeeringQuery(Model, extra="allow"):
    """One peer's events. ``cursor``: of the previous page."""

    peer_id: str | None = Field(default=None, min_length=1, max_length=200)
    cursor: Position | None = None
    limit: int = Field(default=50, ge=1, le=500)


class PeeringRecord(Struct):
    """An event about a peer; ``event_type`` is its kind in the log."""

    id: str
    peer_id: str | None
    event_type: str
    detail: dict[str, Any] | None
    ts: str


class PeeringAnswer(Warned):
    """Newest first. Short pages may still have a next one."""

    entries: list[PeeringRecord]
    cursor: str | None
    has_more: bool


REFUSED_SHOWN = 100
"""Newest rule-breaking events of a peer to show."""


@routes.add("POST /v1/federation/peers/{peer_id}/approve", permission="admin")
async def approve_peer(call: Call, body: ApproveBody) -> PeerApproved:
    """Make a declared node a peer, by the fingerprint from its operator."""
    require_federation(call)
    row = peer_named(call)
    if row.state != "pending":
        raise coded("peer_not_pending", f"the peer is {row.state}")
    if body.pubkey_fingerprint != fingerprint(wire_key(row.public_key)):
        raise ApiError(400, "fingerprint mismatch")
    grants = await _grants(call, body.grants, row)
    await call.do_all(
        [PeerStateSet(peer_id=row.peer_id, state="active", grants=grants), TakeForeignEnds()]
    )
    approved_at = format_instant(call.node.clock.now_us())
    return PeerApproved(row.peer_id, row.node_id, "active", approved_at)


async def _grants(call: Call, body: GrantsBody, row: PeerRow) -> PeerGrants:
    wire = body.wire
    if wire is None:
        private = call.service.settings.federation_insecure
        found = await discovered(row.node_url, private=private)
        wire = "events" if found is not None and found.get(EVENTS_WIRE) else "facts"
    scopes = set(row.allowed_scopes if body.scopes is None else body.scopes)
    if beyond := sorted(scopes - set(row.allowed_scopes)):
        reason = f"the peer's declaration does not offer {', '.join(beyond)}"
        raise invalid("scope_not_declared", ("body", "scopes"), reason)
    gardens = sorted(set(body.gardens))
    return shaped(body, PeerGrants, scopes=sorted(scopes), gardens=gardens, wire=wire)


@routes.add("PUT /v1/federation/peers/{peer_id}/grants", permission="admin")
async def set_grants(call: Call, body: GrantsBody) -> PeerChanged:
    """Set a peer's grants; events that wait for a new grant take effect."""
    row = peer_named(call)
    if not row.active:
        raise coded("peer_not_pending", f"the peer is {row.state}")
    if body.wire is None and row.grants is not None:
        body = body.model_copy(update={"wire": row.grants.wire})
    change = PeerStateSet(peer_id=row.peer_id, grants=await _grants(call, body, row))
    await call.do_all([change, TakeForeignEnds()])
    return _changed(call, row.peer_id)


@routes.add("POST /v1/federation/peers/{peer_id}/revoke", permission="admin", body_required=False)
async def revoke_peer(call: Call, body: ReasonBody) -> PeerChanged:
    """End a peering. Replayed events stay; nothing more passes in either direction."""
    row = peer_named(call)
    await call.do(PeerStateSet(peer_id=row.peer_id, state="revoked", reason=body.reason))
    return _changed(call, row.peer_id)


@routes.add("POST /v1/federation/peers/{peer_id}/release", permission="admin")
async def release_stream(call: Call, body: ReleaseBody) -> PeerChanged:
    """Resume the replay of a held stream where it stopped."""
    row = peer_named(call)
    held = {each.stream for each in _streams(call)[row.node_id] if each.held}
    if body.stream not in held:
        raise coded("stream_not_held", f"stream {body.stream!r} is not held")
    await call.do(
        PeerStateSet(peer_id=row.peer_id, stream=body.stream, held=False, reason=body.reason)
    )
    return _changed(call, row.peer_id)


@routes.add("GET /v1/federation/peers", permission="federate")
async def list_peers(call: Call) -> Peers:
    """Every peer, oldest first."""
    streams = _streams(call)
    rows = call.service.peers.rows().values()
    return Peers([_listed(call, row, streams[row.node_id]) for row in rows])


@routes.add("GET /v1/federation/peers/{peer_id}", permission="admin")
async def get_peer(call: Call) -> PeerDetail:
    """One peer in full."""
    row = peer_named(call)
    reader = call.node.reader
    streams = _streams(call)[row.node_id]
    return shaped(
        _listed(call, row, streams),
        PeerDetail,
        reason=row.reason,
        pubkey_fingerprint=fingerprint(wire_key(row.public_key)) if row.public_key else "",
        grants=None if row.grants is None else msgspec.structs.asdict(row.grants),
        replay=call.service.peers.states.get(row.node_id),
        streams=[shaped(each, ReplayedStream) for each in streams],
        refused=reader.ask(refused_of, row.node_id, REFUSED_SHOWN),
        waiting_ends=reader.ask(waiting_ends).get(row.node_id, {}),
        evidence=[each for each in reader.ask(load_evidence) if each.node_id == row.node_id],
    )


@routes.add("GET /v1/federation/audit", permission="federate", long=True)
def list_peering(call: Call, query: PeeringQuery) -> PeeringAnswer:
    """What happened with peers, newest first: declarations, approvals, pages, contradictions."""
    peers = {row.node_id: row.peer_id for row in call.service.peers.rows().values()}
    shown = Peering(call.node.log, call.authorization.scopes, peers, query.peer_id)
    end = call.view().position + 1
    before = end if query.cursor is None else min(query.cursor, end)
    page = newest_first(shown, LogFilter(), before, query.limit)
    entries = [
        PeeringRecord(
            id=id_text(each.event.event_id),
            peer_id=shown.peer_of(each.event),
            event_type=each.event.kind,
            detail=each.detail,
            ts=format_instant(each.event.header.recorded_at),
        )
        for each in page.entries
    ]
    cursor = None if page.reached is None else str(page.reached)
    return PeeringAnswer(entries, cursor, cursor is not None)


def _streams(call: Call) -> defaultdict[str, list[PeerStream]]:
    """The streams that come through each node."""
    found: defaultdict[str, list[PeerStream]] = defaultdict(list)
    for each in call.node.reader.ask(load_peer_streams):
        found[each.node_id].append(each)
    return found


def _listed(call: Call, row: PeerRow, streams: Sequence[PeerStream]) -> PeerRecord:
    status = "pending_verification" if row.state == "pending" else row.state
    return shaped(row, PeerRecord, status=status, fault=_fault(call, row, streams))


def _fault(call: Call, row: PeerRow, streams: Sequence[PeerStream]) -> str | None:
    pulled = row.pulled if row.active and call.authorization.may("admin") else None
    if pulled is None:
        return None
    if pulled == "facts":
        pull = call.service.federation.states.get(row.node_id)
        if pull is None:
            return None
        return pull.fault or (None if pull.report is None else pull.report.held)
    replay = call.service.peers.states.get(row.node_id)
    if replay is not None and replay.fault is not None:
        return replay.fault
    return next((each.reason for each in streams if each.held), None)


def _changed(call: Call, peer_id: str) -> PeerChanged:
    row = next(each for each in call.node.reader.ask(load_peers) if each.peer_id == peer_id)
    return PeerChanged(peer_id, row.node_id, row.state)


def peer_named(call: Call) -> PeerRow:
    """The peer of the path, by its id here or its node id. Raises ApiError 404."""
    name = call.segment("peer_id")
    for row in call.service.peers.rows().values():
        if name in (row.peer_id, row.node_id):
            return row
    raise coded("peer_not_found", "no such peer")


def require_federation(call: Call) -> None:
    """Raises ApiError if federation is off."""
    if not call.service.settings.federation_enabled:
        raise coded("federation_disabled", "set STIGMEM_FEDERATION_ENABLED=true to have peers")
