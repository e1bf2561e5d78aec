"""Receipts of recalls over HTTP: question, answer, and today's answer."""

from collections.abc import Iterator
from itertools import islice

from engramlog.api.commands.recall.receipts import (
    Receipt,
    ReceiptPage,
    ReplayedRecall,
    is_hidden,
    logged,
    receipt_named,
    replayed,
    sees_all,
    wire_receipt,
)
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.recall import ReceiptsQuery
from engramlog.eventlog.kinds import RecallAnswered
from engramlog.projections.tables.recalls.recall_receipts import list_receipts as receipts_before

routes = Routes("recall")

_KIND = "recall-receipts"


@routes.add("GET /v1/recall/receipts", permission="read", errors=(400,))
async def list_receipts(call: Call, query: ReceiptsQuery) -> ReceiptPage:
    """Receipts of the caller's recalls, newest first; auditors get all callers'."""
    principal = _principal_of(call, query)
    await call.service.tracker.flush_receipts()
    return await call.in_pool(lambda: _page(call, query, principal))


def _principal_of(call: Call, query: ReceiptsQuery) -> str | None:
    """The principal whose receipts to list; None for all. Raises ApiError 403."""
    own = call.caller.principal
    if query.principal is not None and query.principal != own and not sees_all(call):
        raise coded("receipts_of_others", "listing the receipts of others needs audit.read")
    return query.principal or (None if sees_all(call) else own)


def _page(call: Call, query: ReceiptsQuery, principal: str | None) -> ReceiptPage:
    view = call.view()
    walk = call.walk(_KIND, query, call.moment(view))
    before = int(walk.place[0]) if walk.place else view.position + 1
    found = list(islice(_shown(call, principal, before, query.limit), query.limit + 1))
    shown, cursor = call.page(walk, found, query.limit, lambda each: (each[1],))
    return ReceiptPage([wire_receipt(call, view, receipt, at) for receipt, at in shown], cursor)


def _shown(
    call: Call, principal: str | None, before: int, rows_a_page: int
) -> Iterator[tuple[RecallAnswered, int]]:
    """Receipts that the caller may see, newest first, with their positions."""
    while True:
        positions = call.node.reader.ask(receipts_before, principal, before, rows_a_page + 1)
        for position in positions:
            receipt = logged(call, position)
            if receipt is not None and not is_hidden(call, receipt):
                yield receipt, position
        if len(positions) <= rows_a_page:
            return
        before = positions[-1]


@routes.add("GET /v1/recall/receipts/{receipt_id}", permission="read")
def get_receipt(call: Call) -> Receipt:
    """One receipt, of the caller's own recall or for an auditor."""
    receipt, position = receipt_named(call, call.segment("receipt_id"))
    return wire_receipt(call, call.view(), receipt, position)


@routes.add(
    "POST /v1/recall/receipts/{receipt_id}/replay", permission="read", errors=(400,), long=True
)
def replay_receipt(call: Call) -> ReplayedRecall:
    """Repeat the receipt's question at its moment and now. Counts no uses."""
    receipt, _ = receipt_named(call, call.segment("receipt_id"))
    return replayed(call, receipt)
