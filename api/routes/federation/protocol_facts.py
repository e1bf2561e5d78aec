"""The protocol's own federation: facts that peers fetch, and facts that they push."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.wire_facts import Volatile, record_of
from engramlog.api.http.bodies import parse_json
from engramlog.api.http.call import Call
from engramlog.api.http.error_codes import PLAIN_TEXT
from engramlog.api.http.errors import ApiError, coded, plain
from engramlog.api.http.routing import Routes
from engramlog.api.node.issuers import own_issuer
from engramlog.api.node.tasks import tombstone_sharing as sharing
from engramlog.api.node.tasks.protocol_federation import take
from engramlog.api.schemas.erasures import SharedQuery, SharedRecord
from engramlog.api.schemas.values import Model
from engramlog.eventlog.clock import format_hlc, parse_hlc
from engramlog.eventlog.kinds import FactAsserted, RefusedFact
from engramlog.projections.normalization import lies_under
from engramlog.projections.rights.capability_grant import Grant
from engramlog.projections.rights.capability_token import CapabilityInvalid
from engramlog.projections.rights.capability_verification import VerifiedToken
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.projections.tables.peers.protocol_facts import foreign_refusals
from engramlog.projections.writing.peer_commands import ReceiveForeign
from engramlog.replay.stigmem.records import RecordBounds, dated, hlc_of, is_ahead, name_of, taken
from engramlog.replay.stigmem.serving import facts_page
from engramlog.replay.stigmem.tombstones import NotTaken

routes = Routes("federation")

RECORD_BYTES_MAX = 16_384


class Taken(Struct):
    """The outcome of a record."""

    id: str
    status: Literal["accepted"] = "accepted"


@routes.add("GET /v1/federation/tombstones", permission="peer", query=SharedQuery)
def shared(call: Call) -> sharing.SharedTombstones:
    """This node's tombstones in the agreed scopes, for peers."""
    peer, scopes = _peer(call)
    if not scopes or not peer.served:
        raise ApiError(403, "no permitted scopes")
    query = call.query(SharedQuery)
    after = int(query.cursor or 0)
    return sharing.shared_page(call.node, scopes, after, query.limit)


@routes.add(
    "POST /v1/federation/tombstones/ingest",
    permission="peer",
    body=SharedRecord,
    status=201,
    errors=(404, 409),
)
async def ingest(call: Call) -> Taken:
    """Take one record of a peer."""
    data = await call.raw(RECORD_BYTES_MAX)  # first: a peer may be revoked while it arrives
    peer, scopes = _peer(call)
    record: Any = parse_json(data)
    if not isinstance(record, dict):
        raise coded("tombstone_malformed", "a record is a JSON object")
    bounds = sharing.bounds_of(call.node, peer, scopes)
    try:
        check = partial(call.check_peer, peer)
        taken = await sharing.take(call.node, check, cast("dict[str, Any]", record), bounds)
    except NotTaken as fault:
        known = fault.code in PLAIN_TEXT
        raise (plain(fault.code) if known else coded(fault.code, str(fault))) from fault
    return Taken(taken)


def _peer(call: Call) -> tuple[PeerRow, frozenset[str]]:
    """The calling peer, and the scopes shared with it now. Raises ApiError 401."""
    peer, claims = call.peer()
    return peer, call.service.federation.shared_scopes(peer.scopes & frozenset(claims.scopes))


PUSHED_FACTS_MAX = 1000


class PullQuery(Model, extra="allow"):
    """``cursor``: the ``hlc`` of the last record fetched."""

    scope: str | None = None
    cursor: str | None = Field(default=None, max_length=100)
    limit: int = Field(default=100, ge=1, le=500)


class PushBody(Model, extra="allow"):
    """Records to take."""

    facts: list[Any] = Field(max_length=PUSHED_FACTS_MAX)


class PullPage(Struct):
    """Records in the order of their clock readings."""

    facts: list[FactRecord]
    cursor: str | None
    has_more: bool


class PushError(Struct):
    """A refused record."""

    fact_id: str
    error: str


class PushAnswer(Struct):
    """The outcome of each record; known ones count as accepted."""

    accepted: int
    rejected: int
    errors: list[PushError]


class Refusal(Struct):
    """A refused fact of a peer; ``position``: of the event that records the refusal."""

    fact_id: str
    code: str
    position: int


class PulledPeer(Struct):
    """The state of pulling a peer."""

    node_id: str
    active: bool
    cursor: str | None
    received: int
    accepted: int
    refused: int
    rounds: int
    held: str | None
    fault: str | None
    refusals: list[Refusal]


class PulledPeers(Struct):
    """Every peer that this node pulls by the protocol's federation."""

    pulls: list[PulledPeer]


CAPABILITY_HEADER = "X-Stigmem-Capability"
REFUSALS_SHOWN = 100
_WIRE_ERRORS = frozenset({"scope_not_permitted", "source_not_owned", "hlc_skew", "cid_mismatch"})
"""The protocol's error codes; every other refusal is ``ingest_error`` there."""


@routes.add("GET /v1/federation/facts", permission="peer", query=PullQuery, errors=(400,))
def pull(call: Call) -> PullPage:
    """Facts for peers: those that this node stated after a clock reading, in the agreed
    scopes or in one of them."""
    federation = call.service.federation
    peer, claims = call.peer()
    query = call.query(PullQuery)
    scopes = federation.shared_scopes(peer.scopes & frozenset(claims.scopes))
    if not scopes or not peer.served:
        raise ApiError(403, "no permitted scopes")
    if query.scope is not None:
        if query.scope not in scopes:
            raise ApiError(403, "scope not permitted for this peer")
        scopes = frozenset({query.scope})
    cursor = _cursor(query.cursor)
    if query.scope is None and federation.sees_more_scopes(peer):
        cursor = 0
    node = call.node
    found = node.reader.ask(
        facts_page, node.log, call.view(), node.node_id, scopes, cursor, query.limit
    )
    return PullPage(
        facts=[
            record_of(row, Volatile(row.base_confidence, contradicted=False), node.node_id)
            for row in found.rows
        ],
        cursor=None if found.hlc is None else format_hlc(found.hlc),
        has_more=found.has_more,
    )


def _cursor(text: str | None) -> int:
    if not text:
        return 0
    try:
        return parse_hlc(text)
    except ValueError as fault:
        raise coded("invalid_cursor", "the cursor is no clock reading") from fault


@routes.add(
    "POST /v1/federation/facts/push",
    permission="peer",
    body=PushBody,
    status=202,
    errors=(405, 409),
    headers=("X-Stigmem-Capability",),
)
async def push(call: Call) -> PushAnswer:
    """Take a peer's facts, each on its own."""
    if not call.service.settings.federation_push_enabled:
        raise ApiError(405, "Method Not Allowed", headers={"Allow": "GET,HEAD"})
    body = await call.body(PushBody)  # first: a peer may be revoked while it arrives
    pusher = _pusher(call)
    bounds = pusher.bounds
    facts, refused = _sorted_out(call, body.facts, bounds, pusher.prefixes)
    states = {item.fact_id: item.code for item in refused}
    if facts:
        command = ReceiveForeign(
            node_id=bounds.node_id,
            facts=tuple(facts),
            refused=(),
            cursor="",
            received=len(facts),
        )
        states |= await take(call.node, pusher.check, command)
    errors = [
        PushError(name, code if code in _WIRE_ERRORS else "ingest_error")
        for name, code in states.items()
        if code not in ("accepted", "known")
    ]
    accepted = len(states) - len(errors)
    return PushAnswer(accepted, len(errors), errors)


class _Pusher(Struct, frozen=True):
    """The bounds for a caller's records, and the prefixes of their entities. ``check``: raises
    ApiError if the caller's rights changed."""

    bounds: RecordBounds
    prefixes: tuple[str, ...]
    check: Callable[[], None]


def _pusher(call: Call) -> _Pusher:
    """A peer may push its own facts, a capability's holder the facts that its subject may write."""
    federation = call.service.federation
    text = call.request.headers.get(CAPABILITY_HEADER)
    if text is None:
        if "Authorization" not in call.request.headers:
            raise ApiError(401, f"peer token or {CAPABILITY_HEADER} header required")
        peer, claims = call.peer()
        scopes = peer.scopes & frozenset(claims.scopes)
        bounds = federation.bounds(peer.node_id, scopes, peer.node_id)
        return _Pusher(bounds, (), partial(call.check_peer, peer))
    verified, grant = _capability(call, text)
    if "write" not in grant.verbs:
        raise ApiError(403, "insufficient_capability: token verb must be 'write' for push")
    name = f"capability:{verified.token_id}"
    bounds = federation.bounds(name, grant.scopes, verified.subject)

    def check() -> None:  # the token itself says what it grants: it can only end
        _capability(call, text)

    return _Pusher(bounds, grant.entities, check)


def _capability(call: Call, text: str) -> tuple[VerifiedToken, Grant]:
    """A capability of this node, and what it grants now. Raises ApiError 401."""
    node = call.node
    try:
        return node.reader.capabilities.accept(
            text, own_issuer(node.node_id, node.public_key), node.clock.now_us()
        )
    except CapabilityInvalid as fault:
        raise ApiError(401, str(fault.args[0])) from fault


def _sorted_out(
    call: Call, records: list[Any], bounds: RecordBounds, prefixes: tuple[str, ...]
) -> tuple[list[FactAsserted], list[RefusedFact]]:
    """The facts to take, and the refused ones."""
    now_us = call.node.clock.now_us()
    facts: list[FactAsserted] = []
    refused: list[RefusedFact] = []
    for given in records:
        record = dated(given)
        hlc = hlc_of(record)
        if hlc is not None and is_ahead(hlc, now_us):
            refused.append(RefusedFact(name_of(record), "hlc_skew"))
            continue
        outcome = taken(record, bounds)
        if isinstance(outcome, RefusedFact):
            refused.append(outcome)
        elif not all(lies_under(outcome.entity, prefix) for prefix in prefixes):
            refused.append(RefusedFact(name_of(record), "entity_forbidden"))
        else:
            facts.append(outcome)
    return facts, refused


@routes.add("GET /v1/federation/pulls", permission="federate")
async def pulls(call: Call) -> PulledPeers:
    """The state of pulling each peer, and its refused facts."""
    federation, reader = call.service.federation, call.node.reader
    pulls: list[PulledPeer] = []
    for peer in federation.peers().values():
        if peer.pulled != "facts":
            continue
        state, came = federation.states.get(peer.node_id), federation.pulled(peer.node_id)
        report = None if state is None else state.report
        pulls.append(
            PulledPeer(
                node_id=peer.node_id,
                active=peer.active,
                cursor=None if came is None else came.cursor,
                received=0 if came is None else came.received,
                accepted=0 if came is None else came.accepted,
                refused=0 if came is None else came.refused,
                rounds=0 if state is None else state.rounds,
                held=None if report is None else report.held,
                fault=None if state is None else state.fault,
                refusals=[
                    Refusal(*each)
                    for each in reader.ask(foreign_refusals, peer.node_id, REFUSALS_SHOWN)
                ],
            )
        )
    return PulledPeers(pulls)
