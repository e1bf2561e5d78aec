"""Setting and revoking tombstones, and naming those that hide facts."""

import numpy as np
from msgspec import UNSET
from msgspec.structs import asdict

from engramlog.api.answers.erasure_records import (
    ErasureBegun,
    RevocationRecord,
    TombstoneMade,
    TombstoneNotice,
    tombstone_record,
)
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.commands.erasures import erase
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import ApiError, coded, plain
from engramlog.api.schemas.erasures import ErasureRequest, TombstoneRequest
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import URI_LENGTH_MAX
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.tables.facts.tombstones import (
    EVERY_SCOPE,
    TOMBSTONE_SCOPES,
    find_tombstone,
    hidden_scopes,
    tombstones_named,
)
from engramlog.replay.stigmem.tombstones import own_revocation, own_tombstone


def entity_meant(context: RequestContext, text: str) -> str:
    """The entity that a name means now. Raises ApiError 400 ``tombstone_entity_uri_invalid``."""
    named = ":" in text and text.isprintable() and 0 < len(text) <= URI_LENGTH_MAX
    if not named:
        raise plain("tombstone_entity_uri_invalid")
    try:
        return entity_named(context, text, context.view().position)
    except ApiError as fault:
        raise plain("tombstone_entity_uri_invalid") from fault


async def set_tombstone(context: RequestContext, request: TombstoneRequest) -> TombstoneMade:
    """Hide an entity, after erasing it if requested. Raises ApiError 400
    ``tombstone_invalid_scope`` or ``tombstone_entity_uri_invalid``, 403 ``scope_forbidden``, 409
    ``tombstone_already_exists``, 422 ``erasure_beside_hold`` or ``erasure_of_one_scope``, 423
    ``legal_hold``."""
    if request.scope not in TOMBSTONE_SCOPES:
        raise plain("tombstone_invalid_scope")
    entity = entity_meant(context, request.entity_uri)
    _check_rights(context, entity, request.scope)
    _check_erasure(request)
    scopes = hidden_scopes(request.scope)
    known, _ = context.node.reader.tombstones_of(entity)
    if any(each.in_force and each.node_id is None and each.scopes == scopes for each in known):
        raise plain("tombstone_already_exists")
    erasure = await _erased(context, entity, request) if request.erase else None
    command = own_tombstone(
        context.node.identity,
        context.node.clock.now_us(),
        entity=entity,
        scope=request.scope,
        signer=context.caller.principal,
        legal_hold=request.legal_hold,
        reason=request.reason,
    )
    await context.do(command)
    row = context.node.reader.ask(find_tombstone, command.tombstone_id, None)
    assert row is not None
    return TombstoneMade(**asdict(tombstone_record(row)), erasure=erasure or UNSET)


async def revoke_tombstone(
    context: RequestContext, tombstone_id: str, reason: str
) -> RevocationRecord:
    """Revoke a tombstone: it hides nothing from now on. Raises ApiError 404
    ``tombstone_not_found``, 409 ``tombstone_already_revoked``, 403."""
    named = context.node.reader.ask(tombstones_named, tombstone_id)
    if not named:
        raise plain("tombstone_not_found")
    for row in named:
        _check_rights(context, row.entity, row.scope)
    command = own_revocation(
        context.node.identity,
        context.node.clock.now_us(),
        tombstone_id=tombstone_id,
        signer=context.caller.principal,
        reason=reason,
    )
    await context.do(command)
    return shaped(
        command,
        RevocationRecord,
        id=command.revocation_id,
        tombstone_id=tombstone_id,
        reason=reason,
    )


async def _erased(
    context: RequestContext, entity: str, request: TombstoneRequest
) -> ErasureBegun | None:
    """The erasure of all facts about an entity; None if it has none."""
    erasure = ErasureRequest(
        entity=entity, reason="request", wait=request.wait, timeout_s=request.timeout_s
    )
    try:
        return await erase(context, erasure)
    except ApiError as fault:
        if fault.status == 404:
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


def _check_rights(context: RequestContext, entity: str, scope: str) -> None:
    context.check_scopes(hidden_scopes(scope))
    if not context.authorization.covers(entity):
        raise coded("entity_forbidden", f"this capability does not cover entity {entity!r}")


def notices_over(view: View, authorization: Authorization, slots: I32) -> list[TombstoneNotice]:
    """The tombstones that hide some of ``slots`` that the caller could otherwise read; empty except
    for admins."""
    if not view.hiding or not authorization.may("admin") or not len(slots):
        return []
    return [
        shaped(tombstone, TombstoneNotice, tombstone_created_at=tombstone.created_at)
        for tombstone in view.hiding.tombstones
        if len(view.hiding.hidden_by(tombstone, view, slots))
    ]


def notices_in_recall(
    view: View, authorization: Authorization, moment: Moment, question: RecallRequest
) -> list[TombstoneNotice]:
    """The tombstones that hide a recall's facts: of its entity, or with a word of its question."""
    if not view.hiding or not authorization.may("admin"):
        return []
    rights = authorization.past_tombstones()
    if question.scopes is not None:
        rights = rights.narrowed(question.scopes)
    found = [view.postings(term)[0] for term in set(view.tokenize(question.query))]
    slots = np.unique(np.concatenate([view.slots_about(question.entity), *found]))
    return notices_over(view, authorization, live(view, rights, moment, slots.astype(np.int32)))
