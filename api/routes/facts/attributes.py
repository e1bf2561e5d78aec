"""Setting a fact's attributes over HTTP."""

from msgspec import Struct

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.commands.assertions import check_source
from engramlog.api.http.call import Call
from engramlog.api.http.errors import invalid
from engramlog.api.http.routing import Routes
from engramlog.api.routes.facts.facts import find
from engramlog.api.schemas.attributes import AttributesPatch
from engramlog.projections.writing.commands import SetAttributes

routes = Routes("facts")


class AttributesTaken(Struct):
    """``position`` is null if nothing changed."""

    id: str
    position: int | None
    fact: FactRecord


@routes.add(
    "PATCH /v1/facts/{fact_id}/attributes",
    permission="write",
    headers=("Idempotency-Key",),
)
async def set_attributes(call: Call, patch: AttributesPatch) -> AttributesTaken:
    """Set attributes of a fact: the caller's own, or any for admins. Answers the fact's record.

    Raises:
        ApiError: 404 if the fact is not visible to the caller; 403 if the caller may not change it,
            or not to these values.
    """
    changes = patch.changes()
    if not changes and not patch.relevance_change:
        raise invalid("missing", ["body"], "name at least one attribute")
    rights = call.authorization.alone()
    fact_id = call.segment("fact_id")
    call.check_served(fact_id)
    view = call.view()
    slot = find(call, view, call.moment(view), fact_id, rights)
    if not rights.may("admin"):
        check_source(call, view.sources.text(int(view.source[slot])))
    (row,) = call.node.reader.every_row([int(view.from_position[slot])])
    command = SetAttributes(
        fact_id=row.id,
        changes=changes,
        relevance_change=patch.relevance_change,
        rights=rights,
    )
    done = await call.do(command, idempotency=call.idempotency())
    view = call.view()
    record = call.record(view, slot, call.moment(view))
    return AttributesTaken(row.id, done.position, record)
