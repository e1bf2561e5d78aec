"""The suppositions of a fork, decided as the node would decide them.

A supposition needs both: the caller's present rights, and the node's state at the moment. Each uses
the same code as a real write.
"""

import msgspec
from msgspec import Struct

from engramlog.api.commands.assertions import assertion_of, resolution_of
from engramlog.api.commands.decay_sweep import policy_of_request
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.commands.garden_access import entered_garden, swept_gardens
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.auth import require
from engramlog.api.http.errors import ApiError, plain, refused
from engramlog.api.schemas.facts import BatchAssert, BatchRetract
from engramlog.api.schemas.time_travel import Supposed, SupposeResolve, SupposeSweep, SupposeTrust
from engramlog.eventlog.kinds import SourceTrustSet
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.policies import decay_policies
from engramlog.projections.writing.commands import Command, Done, Refused, RetractFact, SweepDecay


class SupposedOutcome(Struct):
    """The outcome of one supposition. ``events``: how many it would write."""

    index: int
    op: str
    fact_id: str | None
    created: bool
    retracted: list[str]
    events: int


def suppose(
    context: RequestContext, scratch: RequestContext, items: list[Supposed]
) -> list[SupposedOutcome]:
    """Write everything in the scratch node, in order; the outcome of each. ``context``: the caller
    at the node itself, for the present rights. ``scratch``: the same caller at the scratch node.
    Raises ApiError: with the refusal's status, ``supposition_refused`` and the supposition's
    index."""
    results: list[SupposedOutcome] = []
    for index, item in enumerate(items):
        try:
            require(context.caller, "write")
            command = _command(context, scratch, item)
            done = _written(scratch, command)
        except ApiError as fault:
            raise _refused(index, fault) from fault
        results.append(
            SupposedOutcome(
                index=index,
                op=item.op,
                fact_id=done.fact_id,
                created=done.created,
                retracted=list(done.retracted),
                events=len(done.events),
            )
        )
    return results


def _written(scratch: RequestContext, command: Command) -> Done:
    writer = scratch.node.writer
    answer = writer.submit([command], actor=scratch.caller.principal).result()
    outcome = answer.outcomes[0]
    if isinstance(outcome, Refused):
        raise refused(outcome)
    return outcome


def _refused(index: int, fault: ApiError) -> ApiError:
    return ApiError(
        fault.status,
        {
            "code": "supposition_refused",
            "message": f"the node refused supposition {index}",
            "index": index,
            "error": fault.body()["detail"],
        },
    )


def _command(context: RequestContext, scratch: RequestContext, item: Supposed) -> Command:
    match item:
        case BatchAssert():
            if item.garden_id is not None:
                entered_garden(context, item.garden_id)
            return assertion_of(scratch, item).command
        case BatchRetract():
            return _retraction(scratch, item)
        case SupposeResolve():
            return resolution_of(scratch, item.conflict_id, item)
        case SupposeTrust():
            require(context.caller, "admin")
            source = stored_uri(item.source)
            return SourceTrustSet(source=source, trust=item.trust, reason=item.reason)
        case SupposeSweep():
            return _sweep(context, scratch, item)


def _retraction(scratch: RequestContext, item: BatchRetract) -> RetractFact:
    """Retract a fact that the caller may see now."""
    scratch.check_served(item.id)
    if not readable_of(scratch.view(), scratch.authorization, [item.id]):
        raise plain("fact_not_found")
    # A supposition may end the facts of any source.
    rights = msgspec.structs.replace(scratch.authorization, sources=("*",))
    return RetractFact(fact_id=item.id, reason=item.reason, rights=rights)


def _sweep(context: RequestContext, scratch: RequestContext, item: SupposeSweep) -> SweepDecay:
    """Sweep the facts that the caller may sweep now, by the moment's policies or the item's own."""
    rights = msgspec.structs.replace(context.narrowed(item.scope), withheld=0)
    if item.scope is not None:
        context.check_scope(item.scope)
    own = policy_of_request(item.ttl_seconds, item.min_confidence)
    reader = scratch.node.reader
    policies = tuple(reader.ask(decay_policies, scratch.view().position)) if own is None else (own,)
    scopes = tuple(scope for scope in SCOPES if scope in rights.scopes)
    return SweepDecay(scopes=scopes, policies=policies, gardens=swept_gardens(context))
