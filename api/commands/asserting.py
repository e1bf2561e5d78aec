"""From an assert request to the writer's intent: every rule that needs the caller or the node."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from api.call import Call
from api.commands.attesting import attestation_of
from api.commands.gardening import entered_garden, member_of
from api.commands.naming import entity_named, stored_uri, value_meant
from api.errors import ApiError, coded, refused
from api.schemas.facts import AssertRequest
from api.schemas.values import FactValue
from eventlog.kinds import FactAttributes, Parent
from projections.attribute_rules import UNTRUSTED_TRUST_MAX
from projections.cid import compute_cid
from projections.instructions import instruction_refusal
from projections.intents import AssertFact
from projections.provenance import shown_facts

_NAMESPACES_HINT = "use a namespace such as 'memory:' or 'rel:'"


class Assertion(Struct, frozen=True):
    """An intent, and what the answer should warn of."""

    intent: AssertFact
    warnings: list[str]


def assertion_of(call: Call, request: AssertRequest) -> Assertion:
    """The intent of one assert request.

    Raises:
        ApiError: 400, 403, 404 or 413 in the protocol's words.
    """
    check_value(call, request.value)
    garden = None if request.garden_id is None else entered_garden(call, request.garden_id).id
    _check_rights(call, request)
    position = call.view().position
    entity, source = entity_named(call, request.entity, position), stored_uri(request.source)
    check_entity(call, entity)
    check_source(call, source)
    given = request.value.stored()
    value = value_meant(call, given, position)
    attributes = None if request.attributes is None else request.attributes.stored()
    check_attributes(call, attributes)
    intent = AssertFact(
        entity=entity,
        relation=request.relation,
        value=value,
        source=source,
        scope=request.scope,
        confidence=request.confidence,
        cid=compute_cid(
            entity=entity,
            relation=request.relation,
            value=value,
            source=source,
            confidence=request.confidence,
            scope=request.scope,
        ),
        valid_from=request.valid_from,
        valid_until=request.valid_until,
        derived_from=request.parents(),
        write_mode=request.write_mode,
        permissions=call.authorization.permissions,
        garden_id=garden,
        attestation=attestation_of(call, request, given),
        attributes=attributes,
        member=member_of(call),
        rights=call.authorization.alone(),
    )
    return Assertion(intent, _warnings(entity, request.relation))


def check_entity(call: Call, entity: str) -> None:
    """Raises ApiError 403 where the caller may not speak of ``entity``."""
    if not call.authorization.covers(entity):
        raise coded("entity_forbidden", f"this capability does not cover entity {entity!r}")


def check_source(call: Call, source: str) -> None:
    """Raises ApiError 403 where the caller may not speak in the name of ``source``."""
    if not call.authorization.writes_as(source):
        raise coded("source_forbidden", f"this key may not write as source {source!r}")


def check_attributes(call: Call, attributes: FactAttributes | None) -> None:
    """Raises ApiError 403 where a fact claims more trust than the caller may lend it: content
    does not raise its own."""
    if attributes is None or call.authorization.may("admin"):
        return
    if attributes.trust > UNTRUSTED_TRUST_MAX:
        raise coded(
            "attribute_forbidden",
            f"trust above {UNTRUSTED_TRUST_MAX} takes admin permission",
            field="attributes.trust",
        )


def check_value(call: Call, value: FactValue) -> None:
    """Raises ApiError 403 for an instruction without the right, 413 for too long a value."""
    refusal = instruction_refusal(value.stored(), call.authorization.permissions)
    if refusal is not None:
        raise refused(refusal)
    limit = call.service.settings.value_bytes_max
    text: str = value.v
    if len(text) * 4 > limit and len(text.encode()) > limit:
        raise ApiError(
            413,
            {"code": "value_too_large", "message": f"value exceeds {limit} bytes"},
            extra={"max_value_bytes": limit},
        )


def _check_rights(call: Call, request: AssertRequest) -> None:
    call.check_scope(request.scope)
    _check_feedback(call, request)


def _check_feedback(call: Call, request: AssertRequest) -> None:
    """A session that has read a scope writes there only with provenance from it (wire 1.7)."""
    session = call.session()
    if session is None:
        return
    sessions = call.service.sessions
    if not sessions.has_read(call.caller.principal, session, request.scope):
        return
    if request.write_mode == "summarize_with_provenance" and _derives_from_scope(
        call, request.parents(), request.scope
    ):
        return
    raise coded(
        "feedback_loop_provenance_required",
        "writes into scopes read earlier in the same session require "
        "write_mode='summarize_with_provenance' and source provenance",
        session_id=session,
        scope=request.scope,
    )


def _derives_from_scope(call: Call, parents: tuple[Parent, ...], scope: str) -> bool:
    view = call.view()
    inside = call.authorization.narrowed(frozenset({scope}))
    asked = [(parent.hash, parent.fact_id) for parent in parents]
    return any(shown_facts(call.node.reader, view, asked, inside, call.moment(view)))


def _warnings(entity: str, relation: str) -> list[str]:
    warnings: list[str] = []
    if ":" not in relation:
        warnings.append(f"bare relation {relation!r} has no namespace; {_NAMESPACES_HINT}")
    reserved: dict[str, Any] = {"relation": relation, "entity": entity}
    warnings += [
        f"{what} {text!r} uses the reserved 'stigmem:' prefix"
        for what, text in reserved.items()
        if text.startswith("stigmem:") and not text.startswith("stigmem://")
    ]
    return warnings
