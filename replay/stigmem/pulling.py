"""Pulls a node that speaks only the protocol, in spite of its faults (wire 3.6).

A page's facts are sorted by clock reading as numbers and taken one by one. They are written
together with the next cursor, so a crash loses and repeats nothing. Refused facts are named in the
log and skipped. Each scope has its own cursor, so a scope that either side grants late starts from
its beginning. The cursor sent is a little earlier than the one reached: nodes that compare readings
as text hide facts behind a cursor that they have already returned.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

from msgspec import Struct

from engramlog.eventlog.clock import COUNTER_LIMIT, format_hlc, parse_hlc
from engramlog.eventlog.kinds import FactAsserted, RefusedFact
from engramlog.projections.image.reader import Reader
from engramlog.projections.tables.peers.protocol_facts import (
    foreign_cursor,
    foreign_known,
    foreign_settled,
)
from engramlog.projections.writing.peer_commands import ReceiveForeign
from engramlog.replay.stigmem.records import (
    OUTSIDE,
    RecordBounds,
    hlc_of,
    is_ahead,
    name_of,
    scope_of,
    taken,
)

PAGE_FACTS = 500
PAGES_MAX = 200
"""Pages of one round; the next round continues."""
OVERLAP_MS = 1_000
ITEMS_MAX = 10_000
DIGITS_MAX = 1_000


class PeerFault(Exception):
    """A peer did not answer with a page; nothing was taken, the next round retries."""


class PeerForbids(PeerFault):
    """A peer's answer does not fit the request."""


class FactSource(Protocol):
    """A peer's ``GET /v1/federation/facts``."""

    async def page(self, scope: str, cursor: str | None, limit: int) -> object:
        """The decoded JSON of one page. Raises PeerFault, PeerForbids."""
        ...


Take = Callable[[ReceiveForeign], Awaitable[dict[str, str]]]
"""Writes a page; the outcome of each fact, by its id at the peer."""


class RoundReport(Struct, frozen=True):
    """The outcome of one round. ``held``: why it stopped before the peer's end, if it did.
    ``more``: it stopped at ``PAGES_MAX``."""

    pages: int
    received: int
    accepted: int
    refused: int
    held: str | None
    more: bool


class _Page(Struct, frozen=True):
    facts: list[object]
    cursor: str | None
    has_more: bool


async def pull_round(
    source: FactSource, reader: Reader, take: Take, bounds: RecordBounds, now_us: Callable[[], int]
) -> RoundReport:
    """Fetch and take pages of every scope until the peer has no more. Raises PeerFault."""
    reports: list[RoundReport] = []
    forbidden: PeerForbids | None = None
    for scope in sorted(bounds.scopes):
        try:
            reports.append(await _pull_scope(scope, source, reader, take, bounds, now_us))
        except PeerForbids as fault:
            forbidden = fault
    if not reports and forbidden is not None:
        raise forbidden
    return RoundReport(
        sum(each.pages for each in reports),
        sum(each.received for each in reports),
        sum(each.accepted for each in reports),
        sum(each.refused for each in reports),
        next((each.held for each in reports if each.held is not None), None),
        any(each.more for each in reports),
    )


async def _pull_scope(
    scope: str,
    source: FactSource,
    reader: Reader,
    take: Take,
    bounds: RecordBounds,
    now_us: Callable[[], int],
) -> RoundReport:
    """Fetch and take pages of one scope until the peer has no more, or ``PAGES_MAX``. Raises
    PeerFault."""
    reached = reader.ask(foreign_cursor, bounds.node_id, scope)
    asked = rewound(reached)
    pages = received = accepted = refused = 0
    held: str | None = None
    more = True
    while more and pages < PAGES_MAX:
        page = page_of(await source.page(scope, asked, PAGE_FACTS))
        pages += 1
        names = [name_of(record) for record in page.facts]
        settled = reader.ask(foreign_settled, bounds.node_id, names)
        known = partial(reader.ask, foreign_known)
        command, held = page_command(page.facts, scope, settled, known, bounds, reached, now_us())
        if command is not None:
            states = (await take(command)).values()
            accepted += sum(state == "accepted" for state in states)
            refused += sum(state not in ("accepted", "known") for state in states)
            received += command.received
            reached = command.cursor
        more = held is None and page.has_more and page.cursor is not None
        if more and page.cursor == asked:
            held, more = "the peer's cursor does not advance", False
        asked = page.cursor
    return RoundReport(pages, received, accepted, refused, held, more)


def page_command(
    facts: Sequence[object],
    scope: str,
    settled: dict[str, str],
    known: Callable[[Sequence[FactAsserted]], list[bool]],
    bounds: RecordBounds,
    reached: str,
    now_us: int,
) -> tuple[ReceiveForeign | None, str | None]:
    """The new facts on a page, and why the rest has to wait, if it does. ``settled``: the peer's
    fact ids that were settled before (empty text if taken, else the reason). ``known``: whether
    each fact is here, through any peer."""
    fresh = [record for record in facts if not _is_settled(record, settled, bounds)]
    fresh.sort(key=lambda record: (hlc_of(record) or 0, name_of(record)))
    held: str | None = None
    found: list[FactAsserted] = []
    refused: list[RefusedFact] = []
    last = reading(reached)
    for record in fresh:
        hlc = hlc_of(record)
        if hlc is not None and is_ahead(hlc, now_us):
            ahead_ms = hlc // COUNTER_LIMIT - now_us // 1000
            held = f"the peer's clock is {ahead_ms} ms ahead: its newest facts wait"
            break
        outcome = taken(record, bounds)
        if isinstance(outcome, RefusedFact):
            refused.append(outcome)
        else:
            found.append(outcome)
        last = max(last, hlc or 0)
    new = [fact for fact, here in zip(found, known(found), strict=True) if not here]
    if not new and not refused:
        return None, held
    command = ReceiveForeign(
        node_id=bounds.node_id,
        facts=tuple(new),
        refused=tuple(refused),
        cursor=format_hlc(last),
        scope=scope,
        received=len(new) + len(refused),
    )
    return command, held


def _is_settled(record: object, settled: dict[str, str], bounds: RecordBounds) -> bool:
    """Whether a record is done with; one refused for its scope comes again once that is granted."""
    code = settled.get(name_of(record))
    return code is not None and not (code == OUTSIDE and scope_of(record) in bounds.scopes)


def rewound(cursor: str) -> str | None:
    """The cursor to send: a little before the reached one, in a form that is smaller than any
    reading of its millisecond or later, both as number and as text."""
    wall_ms = reading(cursor) // COUNTER_LIMIT - OVERLAP_MS
    return None if wall_ms <= 0 else f"{wall_ms:013d}.0"


def reading(cursor: str) -> int:
    """A cursor as a number; 0 without one."""
    try:
        return parse_hlc(cursor)
    except ValueError:
        return 0


def page_of(body: object) -> _Page:
    """The page in an answer. Raises PeerFault."""
    if not isinstance(body, dict):
        raise PeerFault("the peer did not answer with a page of facts")
    fields = cast("dict[str, Any]", body)
    facts = fields.get("facts")
    if not isinstance(facts, list):
        raise PeerFault("the peer did not answer with a page of facts")
    items = cast("list[object]", facts)
    if len(items) > ITEMS_MAX:
        raise PeerFault(f"the peer sent {len(items)} facts at once")
    cursor = fields.get("cursor")
    return _Page(items, cursor if isinstance(cursor, str) else None, bool(fields.get("has_more")))


def _integer(text: str) -> int | float:
    """A JSON integer. Python refuses to read one of thousands of digits, and with it the page."""
    return int(text) if len(text) < DIGITS_MAX else float(text)


def decode_body(data: bytes) -> object:
    """The JSON of an answer. Raises PeerFault."""
    try:
        return cast("object", json.loads(data, parse_int=_integer))
    except (ValueError, RecursionError) as fault:
        raise PeerFault("the peer's answer is not JSON") from fault
