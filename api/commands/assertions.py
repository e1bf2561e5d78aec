"""From an assert request to the writer's command: the rules that need the caller or the node."""

from msgspec import Struct

from engramlog.api.commands.attestations import attestation_of
from engramlog.api.commands.entity_names import entity_named, stored_uri, value_meant
from engramlog.api.commands.garden_access import entered_garden
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import ApiError, coded, existing
from engramlog.api.schemas.facts import AssertRequest, BatchAssert, ResolveRequest
from engramlog.eventlog.kinds import FactAsserted, FactAttributes, Parent, Value
from engramlog.projections.cid import with_cid
from engramlog.projections.contradictions.conflicts import conflict
from engramlog.projections.graph.provenance import shown_facts
from engramlog.projections.memories.attribute_rules import UNTRUSTED_TRUST_MAX
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.writing.commands import AssertFact, ResolveConflict

_NAMESPACES_HINT = "use a namespace such as 'memory:' or 'rel:'"


class Assertion(Struct, frozen=True):
    """A command, and the warnings for the answer."""

    command: AssertFact
    warnings: list[str]


def assertion_of(context: RequestContext, request: AssertRequest) -> Assertion:
    """The command of one assert request. Raises as ``Assertions.of``."""
    return Assertions(context).of(request)


class Assertions:
    """The assert requests of one caller. What holds for several facts is examined once: the rights
    to a scope, an entity and a source."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._position = context.node.reader.image.position
        self._scopes: set[str] = set()
        self._entities: dict[str, str] = {}
        self._sources: dict[str, str] = {}

    def of(self, request: AssertRequest) -> Assertion:
        """The command of one assert request. Raises ApiError 400, 403, 404 or 413 in the protocol's
        words."""
        context = self._context
        given = request.value.stored()
        check_value(context, given)
        garden = None
        if request.garden_id is not None:
            garden = entered_garden(context, request.garden_id).id
        self._check_scope(request)
        entity, source = self._names(request)
        value = given if given.type != "ref" else value_meant(context, given, self._position)
        attributes = None if request.attributes is None else request.attributes.stored()
        if attributes is not None:
            check_attributes(context, attributes)
        fact = FactAsserted(
            entity=entity,
            relation=request.relation,
            value=value,
            source=source,
            scope=request.scope,
            confidence=request.confidence,
            valid_from=request.valid_from,
            valid_until=request.valid_until,
            derived_from=request.derived_from,
            write_mode=request.write_mode,
            garden_id=garden,
            attestation=attestation_of(context, request, given),
            attributes=attributes,
        )
        again = isinstance(request, BatchAssert) and request.again
        command = AssertFact(with_cid(fact), again=again, rights=context.own_rights)
        return Assertion(command, _warnings(entity, request.relation))

    def _check_scope(self, request: AssertRequest) -> None:
        if request.scope in self._scopes:
            return
        self._context.check_scope(request.scope)
        if not _has_read(self._context, request.scope):
            self._scopes.add(request.scope)
        elif request.write_mode != "summarize_with_provenance" or not _derives_from_scope(
            self._context, request.derived_from, request.scope
        ):
            raise coded(
                "feedback_loop_provenance_required",
                "writes into scopes read earlier in the same session require "
                "write_mode='summarize_with_provenance' and source provenance",
                session_id=self._context.session(),
                scope=request.scope,
            )

    def _names(self, request: AssertRequest) -> tuple[str, str]:
        """Entity and source in stored form, once the caller may use them."""
        entity, source = self._entities.get(request.entity), self._sources.get(request.source)
        if entity is None or source is None:
            context = self._context
            entity = entity_named(context, request.entity, self._position)
            source = stored_uri(request.source)
            check_entity(context, entity)
            check_source(context, source)
            self._entities[request.entity], self._sources[request.source] = entity, source
        return entity, source


def check_entity(context: RequestContext, entity: str) -> None:
    """Raises ApiError 403 if the caller may not state facts about ``entity``."""
    if not context.authorization.covers(entity):
        raise coded("entity_forbidden", f"this capability does not cover entity {entity!r}")


def check_source(context: RequestContext, source: str) -> None:
    """Raises ApiError 403 if the caller may not write as ``source``."""
    if not context.authorization.writes_as(source):
        raise coded("source_forbidden", f"this key may not write as source {source!r}")


def check_may_end(context: RequestContext, source: str) -> None:
    """Raises ApiError 403 if the caller may not end facts of ``source``."""
    if not context.authorization.may_end(source):
        raise coded("source_forbidden", f"this key may not end facts of source {source!r}")


def check_ends_everything(context: RequestContext) -> None:
    """Raises ApiError 403 if the caller may not end the facts of every source: commands that end,
    hide or weaken any facts need this."""
    if not context.authorization.ends_everything:
        raise coded("source_forbidden", "this key may not end facts of every source")


def check_attributes(context: RequestContext, attributes: FactAttributes) -> None:
    """Raises ApiError 403 if a fact claims more trust than the caller may give: content must not
    raise its own trust."""
    if attributes.trust > UNTRUSTED_TRUST_MAX and not context.authorization.may("admin"):
        raise coded(
            "attribute_forbidden",
            f"trust above {UNTRUSTED_TRUST_MAX} takes admin permission",
            field="attributes.trust",
        )


def check_value(context: RequestContext, value: Value) -> None:
    """Raises ApiError 413 for too long a value."""
    if len(value.v) * 4 > context.service.settings.value_bytes_max:
        check_size(context, len(value.v.encode()), "value")


def check_size(context: RequestContext, size: int, what: str) -> None:
    """Raises ApiError 413 if ``what`` has more bytes than a value may have."""
    limit = context.service.settings.value_bytes_max
    if size > limit:
        raise ApiError(
            413,
            {"code": "value_too_large", "message": f"{what} exceeds {limit} bytes"},
            extra={"max_value_bytes": limit},
        )


def source_of(context: RequestContext, given: str | None) -> str:
    """The source of a request's writes: the caller, unless given. Raises ApiError 403."""
    if given is None:
        return stored_uri(context.caller.principal)
    source = stored_uri(given)
    check_source(context, source)
    return source


def _has_read(context: RequestContext, scope: str) -> bool:
    """Whether the session has read the scope: then it may write there only with provenance from it
    (wire 1.7)."""
    session = context.session()
    if session is None:
        return False
    return context.service.sessions.has_read(context.caller.principal, session, scope)


def _derives_from_scope(context: RequestContext, parents: list[Parent], scope: str) -> bool:
    view = context.view()
    inside = context.authorization.narrowed(frozenset({scope}))
    named = [(parent.hash, parent.fact_id, None) for parent in parents]
    return any(shown_facts(context.node.reader, view, named, inside, context.moment(view)))


def _warnings(entity: str, relation: str) -> list[str]:
    warnings: list[str] = []
    if ":" not in relation:
        warnings.append(f"bare relation {relation!r} has no namespace; {_NAMESPACES_HINT}")
    if relation.startswith("stigmem:") or entity.startswith("stigmem:"):
        warnings += [
            f"{what} {text!r} uses the reserved system prefix 'stigmem:'"
            for what, text in (("relation", relation), ("entity", entity))
            if text.startswith("stigmem:") and not text.startswith("stigmem://")
        ]
    return warnings


def resolution_of(
    context: RequestContext, conflict_id: str, request: ResolveRequest
) -> ResolveConflict:
    """The command that settles a contradiction. Raises ApiError 403, 404, 413."""
    value = None if request.new_value is None else request.new_value.stored()
    if value is not None:
        check_value(context, value)
    view, rights = context.view(), context.authorization
    moment = context.moment(view)
    seen = existing(
        conflict(context.node.reader, view, rights.reading(), moment, conflict_id),
        "conflict_not_found",
    )
    return ResolveConflict(
        conflict_id=conflict_id,
        source=normalize_uri(context.caller.principal),
        fact_id=seen.row.fact_id,
        settled=seen.status == "resolved",
        winning_fact_id=request.winning_fact_id,
        new_value=value,
        note=request.resolution_note,
        rights=rights,
    )
