"""A page of this node's facts, for peers that pull by the protocol (wire 3.3)."""

import apsw
import msgspec
import numpy as np
from msgspec import Struct

from engramlog.eventlog.codec import intact_header
from engramlog.eventlog.log import EventLog
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import hidden_positions, known
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.fact_rows import FactRow
from engramlog.projections.tables.peers.protocol_outbox import (
    Outgoing,
    outgoing_facts,
    outgoing_retractions,
)


class FactsPage(Struct, frozen=True):
    """Records in the order of their clock readings; ``hlc`` is that of the last one."""

    rows: list[FactRow]
    hlc: int | None
    has_more: bool


def facts_page(
    db: apsw.Connection,
    log: EventLog,
    view: View,
    node_id: str,
    scopes: frozenset[str],
    cursor: int,
    limit: int,
) -> FactsPage:
    """The facts that this node stated or retracted after a clock reading, in some scopes. Readings
    of this node ascend with its positions, so a page begins at a position and no fact is skipped or
    sent twice."""
    start = position_of(log, cursor)
    rights = Authorization(node_id, frozenset({"read"}), scopes, ceiling=OPEN_CLASS)
    slots = known(view, rights, Moment(view.position, 0))
    positions = view.from_position[slots]
    positions = np.sort(positions[positions > start])
    wanted = limit + 1
    outgoing = outgoing_facts(db, positions.tolist(), node_id, wanted)
    hidden = hidden_positions(view, rights)
    outgoing += [
        each
        for each in outgoing_retractions(db, start, view.position, node_id, scopes, wanted, hidden)
        if _is_visible(view, each)
    ]
    outgoing.sort(key=lambda each: each.position)
    shown = _whole_positions(outgoing, limit)
    rows = [_with_event_clock(log, each) for each in shown]
    return FactsPage(rows, rows[-1].hlc if rows else None, len(outgoing) > len(shown))


def _is_visible(view: View, each: Outgoing) -> bool:
    """Whether no tombstone hides the fact that a record ends."""
    slot = view.slot_at(each.row.from_position)
    if slot is None:
        return False
    hidden = view.hidden(np.asarray([slot], dtype=np.int32))
    return hidden is None or not hidden[0]


def position_of(log: EventLog, hlc: int) -> int:
    """The last position received at or before a clock reading; 0 without one."""
    low, high = 0, log.head().position
    while low < high:
        middle = (low + high + 1) // 2
        if log.read_stored(middle - 1, 1)[0].received_hlc <= hlc:
            low = middle
        else:
            high = middle - 1
    return low


def _whole_positions(outgoing: list[Outgoing], limit: int) -> list[Outgoing]:
    """At most ``limit``, plus those at the last one's position: a cursor cannot part them."""
    if len(outgoing) <= limit:
        return outgoing
    last = outgoing[limit - 1].position
    end = limit
    while end < len(outgoing) and outgoing[end].position == last:
        end += 1
    return outgoing[:end]


def _with_event_clock(log: EventLog, each: Outgoing) -> FactRow:
    """The row with the clock reading of the event that orders it."""
    if each.row.from_position == each.position:
        return each.row
    header = intact_header(log.read_stored(each.position - 1, 1)[0])
    return msgspec.structs.replace(each.row, hlc=header.hlc)
