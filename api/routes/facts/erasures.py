"""Erasures, legal holds and tombstones over HTTP: for admins only (wire 5.5)."""

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import asdict

from engramlog.api.answers.erasure_records import (
    ErasureBegun,
    ErasureRecord,
    HoldRecord,
    ListedTombstone,
    RevocationRecord,
    TombstoneMade,
    TombstoneRecord,
    revocation_record,
    tombstone_record,
)
from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import stored_uri
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.commands.event_effects import erasure_record
from engramlog.api.http.call import Call, ignored
from engramlog.api.http.errors import ApiError, coded, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.erasures import (
    BeforeQuery,
    ErasureRequest,
    HoldRequest,
    HoldsQuery,
    RevokeRequest,
    TombstoneRequest,
)
from engramlog.eventlog.identifiers import IdentifierSource, id_text
from engramlog.eventlog.kinds import LegalHoldSet
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import URI_LENGTH_MAX
from engramlog.projections.tables.facts.erasures import find_erasure, legal_holds
from engramlog.projections.tables.facts.erasures import list_erasures as erasures_before
from engramlog.projections.tables.facts.tombstones import (
    EVERY_SCOPE,
    TOMBSTONE_SCOPES,
    find_tombstone,
    hidden_scopes,
    tombstones_named,
)
from engramlog.projections.tables.facts.tombstones import list_tombstones as tombstones_before
from engramlog.projections.tables.recalls.recall_receipts import receipt_positions
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.writing.decide.facts.erased_set import has_episodes, spellings_of
from engramlog.replay.erasing import asks, receipts_of
from engramlog.replay.stigmem.tombstones import own_revocation, own_tombstone

routes = Routes("erasure")

TEXT_LENGTH_MIN = 4
"""Shorter values are too common to look for in the questions of recalls."""
SUGGESTED_MAX = 3


class ErasurePage(Struct):
    """``before``: requests the next page; null on the last one."""

    erasures: list[ErasureRecord]
    before: int | None


class HoldPage(Warned):
    """Legal holds in force. ``cursor``: requests the next page; null on the last one. ``warnings``:
    only in answers to PUT that have any."""

    holds: list[HoldRecord]
    cursor: int | None


@routes.add("POST /v1/erasures", permission="admin", status=202, errors=(404, 423))
async def begin_erasure(call: Call, body: ErasureRequest) -> ErasureBegun:
    """Erase facts: at once from every answer; from every file once the status says so."""
    service = call.service
    entity = None if body.entity is None else stored_uri(body.entity)
    if entity is not None and body.mentions:
        await call.in_pool(lambda: _require_whole_name(call, entity))
    says = await asyncio.to_thread(_repeating, call, body.fact_ids, entity)
    if says is not None:
        service.tracker.withhold(partial(asks, says=says))
    await service.tracker.flush()
    told = [] if says is None else await asyncio.to_thread(_telling, call, body.fact_ids, says)
    identifiers = IdentifierSource(call.node.log.origin)
    command = shaped(
        body,
        EraseFacts,
        erasure_id=id_text(identifiers.next(call.node.clock.now_us())),
        fact_ids=tuple(body.fact_ids),
        entity=entity,
        rights=call.authorization,
        events=tuple(told),
    )
    try:
        done = await call.do(command)
    except ApiError as fault:
        if entity is None or fault.status != HTTPStatus.NOT_FOUND:
            raise
        raise coded("fact_not_found", f"nothing is known about {body.entity}") from fault
    service.cleaning.wake()
    if body.wait:
        await service.cleaning.wait(command.erasure_id, body.timeout_s)
    row = call.node.reader.ask(find_erasure, command.erasure_id)
    assert row is not None
    return ErasureBegun(
        **asdict(erasure_record(call, row)),
        fact_ids=done.detail["fact_ids"],
        derived_fact_ids=done.detail["derived_fact_ids"],
        episode_ids=done.detail["episode_ids"],
    )


def _require_whole_name(call: Call, name: str) -> None:
    """Raises ApiError 404: ``ann`` is given for ``user:ann``, or an alias for its entity. It would
    erase what others say of her, and keep all that is about her."""
    view = call.view()
    if len(view.slots_about(name)):
        return
    meant = entity_named(call, name, view.position)
    whole = [meant]
    if meant == name:
        if ":" in name:
            return
        if call.node.reader.ask(has_episodes, name, call.authorization):
            return
        slots = known(view, call.authorization, call.moment(view))
        entities = view.entities.texts(np.unique(view.entity[slots]).tolist())
        ends = (f":{name}", f"/{name}")
        whole = [each for each in entities if each.endswith(ends)]
        if not whole:
            return
    names = " or ".join(sorted(whole)[:SUGGESTED_MAX])
    raise coded("fact_not_found", f"no facts are about {name}; give {names}")


def _repeating(call: Call, fact_ids: list[str], entity: str | None) -> Callable[[str], bool] | None:
    """Tells whether a text repeats one to erase; None if there is nothing to look for."""
    reader = call.node.reader
    view = reader.pin()
    named = [slot for fact in fact_ids if (slot := view.slot_of(fact)) is not None]
    places = np.asarray([*view.slots_about(entity).tolist(), *named], dtype=np.int32)
    texts = {row.value_v for row in reader.rows(view.from_position[places].tolist())}
    texts = {text.casefold() for text in texts if len(text) >= TEXT_LENGTH_MIN}
    names = None if entity is None else spellings_of(entity)
    if not texts and names is None:
        return None

    def says(text: str) -> bool:
        folded = text.casefold()
        if names is not None and names.search(text.lower()):
            return True
        return any(each in folded for each in texts)

    return says


def _telling(call: Call, fact_ids: list[str], says: Callable[[str], bool]) -> list[str]:
    """Events of recall receipts that returned a fact to erase, or whose question or request repeats
    it. The cleaning finds those that returned others that go with it."""
    positions = call.node.reader.ask(receipt_positions)
    return receipts_of(call.node.log, positions, frozenset(fact_ids), says)


@routes.add("GET /v1/erasures", permission="admin")
async def list_erasures(call: Call, query: BeforeQuery) -> ErasurePage:
    """Erasures, newest first."""
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.ask(erasures_before, before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return ErasurePage([erasure_record(call, row) for row in shown], more)


@routes.add("GET /v1/erasures/{erasure_id}", permission="admin")
async def get_erasure(call: Call) -> ErasureRecord:
    """The state of an erasure, with its receipt once every file is clean."""
    row = call.node.reader.ask(find_erasure, call.segment("erasure_id"))
    if row is None:
        raise coded("erasure_not_found", "no such erasure")
    return erasure_record(call, row)


@routes.add("GET /v1/legal-holds", permission="admin")
async def list_holds(call: Call, query: HoldsQuery) -> HoldPage:
    """Legal holds in force, newest first."""
    return _holds(call, query)


def _holds(call: Call, query: HoldsQuery) -> HoldPage:
    before = LIVE if query.cursor is None else query.cursor
    rows = call.node.reader.ask(legal_holds, before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return HoldPage([shaped(hold, HoldRecord) for hold in shown], more)


@routes.add("PUT /v1/legal-holds", permission="admin", errors=(404,))
async def put_hold(call: Call, request: HoldRequest) -> HoldPage:
    """Set or release the legal hold of a fact or an entity, with the reason. Answers the newest
    holds."""
    held, reason = request.held, request.reason
    warnings = ignored(request)
    if request.fact_id is not None:
        command = LegalHoldSet("fact", request.fact_id, held, reason)
    else:
        assert request.entity is not None
        command = LegalHoldSet("entity", stored_uri(request.entity), held, reason)
        if held:
            warnings += await call.in_pool(lambda: _unknown_warning(call, command.target))
    done = await call.do(command)
    if not held and not done.created:
        warnings.append(f"no hold was on {command.target}")
    page = _holds(call, HoldsQuery())
    page.warnings = warnings or UNSET
    return page


def _unknown_warning(call: Call, name: str) -> list[str]:
    """A warning about an entity that nothing is known of: a mistyped name protects nothing."""
    view = call.view()
    number = view.entities.number(name)
    rights = call.authorization.past_tombstones()
    if number is not None:
        slots = np.concatenate((view.entity_slots(number), view.object_slots(number)))
        if len(known(view, rights, call.moment(view), slots)):
            return []
    if call.node.reader.ask(has_episodes, name, rights):
        return []
    meant = entity_named(call, name, view.position)
    hint = "" if meant == name else f"; it is another name of {meant}"
    return [f"nothing is known about {name}{hint}"]


class TombstoneStatus(Struct):
    """``tombstoned``: whether one of the tombstones is in force."""

    tombstoned: bool
    tombstones: list[TombstoneRecord]
    revocations: list[RevocationRecord]


class TombstonePage(Struct):
    """``before``: requests the next page; null on the last one."""

    tombstones: list[ListedTombstone]
    before: int | None


@routes.add("POST /v1/tombstones", permission="admin", status=201, errors=(423,))
async def set_tombstone(call: Call, request: TombstoneRequest) -> TombstoneMade:
    """Hide an entity from every answer, also about the past."""
    if request.scope not in TOMBSTONE_SCOPES:
        raise plain("tombstone_invalid_scope")
    entity = entity_meant(call, request.entity_uri)
    _check_hiding(call, entity, request.scope)
    _check_erasure(request)
    scopes = hidden_scopes(request.scope)
    known, _ = call.node.reader.tombstones_of(entity)
    if any(each.in_force and each.node_id is None and each.scopes == scopes for each in known):
        raise plain("tombstone_already_exists")
    erasure = await _erased(call, entity, request) if request.erase else None
    command = own_tombstone(
        call.node.identity,
        call.node.clock.now_us(),
        entity=entity,
        scope=request.scope,
        signer=call.caller.principal,
        legal_hold=request.legal_hold,
        reason=request.reason,
    )
    await call.do(command)
    row = call.node.reader.ask(find_tombstone, command.tombstone_id, None)
    assert row is not None
    return TombstoneMade(**asdict(tombstone_record(row)), erasure=erasure or UNSET)


async def _erased(call: Call, entity: str, request: TombstoneRequest) -> ErasureBegun | None:
    """The erasure of all facts about an entity; None if it has none."""
    erasure = ErasureRequest(
        entity=entity, reason="request", wait=request.wait, timeout_s=request.timeout_s
    )
    try:
        return await begin_erasure(call, erasure)
    except ApiError as fault:
        if fault.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def _check_erasure(request: TombstoneRequest) -> None:
    if request.erase and request.legal_hold:
        raise coded(
            "erasure_beside_hold",
            "a legal hold keeps the facts that erase would remove: choose one",
        )
    if request.erase and request.scope not in EVERY_SCOPE:
        raise coded("erasure_of_one_scope", "erase takes every scope: scope must be 'all'")


def _check_hiding(call: Call, entity: str, scope: str) -> None:
    call.check_scopes(hidden_scopes(scope))
    if not call.authorization.covers(entity):
        raise coded("entity_forbidden", f"this capability does not cover entity {entity!r}")


def entity_meant(call: Call, text: str) -> str:
    """The entity that a name means now. Raises ApiError 400 ``tombstone_entity_uri_invalid``."""
    named = ":" in text and text.isprintable() and 0 < len(text) <= URI_LENGTH_MAX
    if not named:
        raise plain("tombstone_entity_uri_invalid")
    try:
        return entity_named(call, text, call.view().position)
    except ApiError as fault:
        raise plain("tombstone_entity_uri_invalid") from fault


@routes.add("GET /v1/tombstones/{entity_uri:.+}", permission="admin", errors=(400,))
async def tombstone_status(call: Call) -> TombstoneStatus:
    """Whether an entity is hidden, with all its tombstones and revocations."""
    entity = entity_meant(call, call.segment("entity_uri"))
    rows, revocations = call.node.reader.tombstones_of(entity)
    return TombstoneStatus(
        tombstoned=any(row.in_force for row in rows),
        tombstones=[tombstone_record(row) for row in rows],
        revocations=[revocation_record(row) for row in revocations],
    )


@routes.add("POST /v1/tombstones/{tombstone_id}/revoke", permission="admin")
async def revoke_tombstone(call: Call, request: RevokeRequest) -> RevocationRecord:
    """Show the entity again, unless another tombstone hides it."""
    tombstone_id = call.segment("tombstone_id")
    named = call.node.reader.ask(tombstones_named, tombstone_id)
    if not named:
        raise plain("tombstone_not_found")
    for row in named:
        _check_hiding(call, row.entity, row.scope)
    command = own_revocation(
        call.node.identity,
        call.node.clock.now_us(),
        tombstone_id=tombstone_id,
        signer=call.caller.principal,
        reason=request.reason,
    )
    await call.do(command)
    return shaped(
        command,
        RevocationRecord,
        id=command.revocation_id,
        tombstone_id=tombstone_id,
        reason=request.reason,
    )


@routes.add("GET /v1/tombstones", permission="admin")
async def list_tombstones(call: Call, query: BeforeQuery) -> TombstonePage:
    """Tombstones, newest first, including revoked ones."""
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.ask(tombstones_before, before, query.limit + 1)
    shown = rows[: query.limit]
    records = [
        shaped(
            row,
            ListedTombstone,
            id=row.tombstone_id,
            stands=row.in_force,
            position=row.from_position,
        )
        for row in shown
    ]
    more = shown[-1].from_position if len(rows) > len(shown) else None
    return TombstonePage(records, more)
