"""From a request to settle a contradiction to the writer's command."""

from engramlog.api.commands.assertions import check_value
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import plain
from engramlog.api.schemas.facts import ResolveRequest
from engramlog.projections.contradictions.conflicts import conflict
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.writing.commands import ResolveConflict


def resolution_of(
    context: RequestContext, conflict_id: str, request: ResolveRequest
) -> ResolveConflict:
    """The command that settles a contradiction. Raises ApiError 403, 404, 413."""
    value = None if request.new_value is None else request.new_value.stored()
    if value is not None:
        check_value(context, value)
    view, rights = context.view(), context.authorization
    moment = context.moment(view)
    seen = conflict(context.node.reader, view, rights.reading(), moment, conflict_id)
    if seen is None:
        raise plain("conflict_not_found")
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
