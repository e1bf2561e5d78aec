"""The provenance walk: a fact's ancestors by derivation.

Links go from content hash to content hash. A hash means the newest visible fact with that content
at the Moment, or nothing; one of the child's voice comes first, so that no other node gives
its facts other ancestors by repeating them. Visibility is decided in memory before any row is read.
So answer, counts and cost are the same for an absent fact and a hidden one. Source: seed §20.6.2,
wire 5.4.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from engramlog.eventlog.kinds import Parent
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.fact_columns import cid_number
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.fact_rows import FactRow

DEPTH_MAX = 5
NODES_MAX = 5_000
LINKS_MAX = 20_000
"""Either limit ends a walk; the answer reports it as truncated."""
Voice: TypeAlias = tuple[str, str | None]
"""The node that stated a fact, and the peer it came through: a peer can wrap facts as another
node's."""


class Ancestor(Struct, frozen=True):
    """A reached hash, its fewest hops, and its visible fact, if any."""

    hash: str
    depth: int
    row: FactRow | None


class Link(Struct, frozen=True):
    """``child`` is derived from ``parent``: content hashes, 64 hex digits."""

    child: str
    parent: str


class Walk(Struct, frozen=True):
    """``ancestors`` begins with the root; nearest first, then in the order of naming.
    ``truncated``: more than ``NODES_MAX`` nodes or ``LINKS_MAX`` links exist."""

    ancestors: list[Ancestor]
    links: list[Link]
    truncated: bool


def walk(
    reader: Reader,
    view: View,
    root: FactRow,
    authorization: Authorization,
    moment: Moment,
    *,
    depth: int,
) -> Walk:
    """The ancestors of ``root`` within ``depth`` hops; cycles end where they close. ``root``: a
    visible fact; of its content, only its own ``derived_from`` is followed. ``depth``: 1 to
    ``DEPTH_MAX``."""
    start = content_hash(root)
    ancestors = {start: Ancestor(start, 0, root)}
    links: dict[Link, None] = {}
    frontier = [root]
    for hops in range(1, depth + 1):
        asked = _newly_named(frontier, ancestors, links)
        room = NODES_MAX - len(ancestors)
        named = [(name, *given) for name, given in asked.items()][:room]
        rows = shown_facts(reader, view, named, authorization, moment)
        for (name, *_), row in zip(named, rows, strict=True):
            ancestors[name] = Ancestor(name, hops, row)
        frontier = [row for row in rows if row is not None]
        if len(asked) > room or len(links) >= LINKS_MAX:
            kept = [link for link in links if link.parent in ancestors]
            return Walk(list(ancestors.values()), kept, True)
    return Walk(list(ancestors.values()), list(links), False)


def _newly_named(
    frontier: Sequence[FactRow], ancestors: Mapping[str, Ancestor], links: dict[Link, None]
) -> dict[str, tuple[str | None, Voice]]:
    """The hashes that the frontier names for the first time, each with its fact id, if given, and
    the voice that named it; records every link."""
    asked: dict[str, tuple[str | None, Voice]] = {}
    for row in frontier:
        child = content_hash(row)
        for parent in row.derived_from:
            if len(links) >= LINKS_MAX:
                return asked
            links[Link(child, parent.hash)] = None
            if parent.hash not in ancestors:
                name, voice = asked.get(parent.hash, (None, voice_of(row)))
                asked[parent.hash] = (name or parent.fact_id, voice)
    return asked


def parents(
    reader: Reader, view: View, row: FactRow, authorization: Authorization, moment: Moment
) -> list[tuple[Parent, FactRow | None]]:
    """The entries of a fact's ``derived_from``, each with its visible fact, if any."""
    entries = row.derived_from
    asked = [(entry.hash, entry.fact_id, voice_of(row)) for entry in entries]
    rows = shown_facts(reader, view, asked, authorization, moment)
    return list(zip(entries, rows, strict=True))


def voice_of(row: FactRow) -> Voice:
    return row.origin, row.received_from


def shown_facts(
    reader: Reader,
    view: View,
    asked: Sequence[tuple[str, str | None, Voice | None]],
    authorization: Authorization,
    moment: Moment,
) -> list[FactRow | None]:
    """For each (content hash, fact id or None, voice or None): the fact with that id, if it is
    visible and has that content, else the newest visible fact with that content, the voice's own
    first."""
    slots = [view.cid_slots(int(name[:16], 16)) for name, *_ in asked]
    everyone: I32 = np.unique(np.concatenate(slots)) if slots else np.empty(0, dtype=np.int32)
    visible = known(view, authorization, moment, everyone)
    rows = {row.from_position: row for row in reader.rows(view.from_position[visible].tolist())}
    found: list[FactRow | None] = []
    for (name, fact_id, voice), candidates in zip(asked, slots, strict=True):
        positions = view.from_position[candidates].tolist()
        shown = [rows[each] for each in positions if each in rows]
        shown = [row for row in shown if row.cid == f"sha256:{name}"]
        own = [row for row in shown if voice_of(row) == voice] or shown
        exact = [row for row in shown if row.id == fact_id] or own
        found.append(max(exact, key=lambda row: (row.hlc, row.id)) if exact else None)
    return found


def visible_of_cid(
    reader: Reader, view: View, cid: str, authorization: Authorization, moment: Moment
) -> list[int]:
    """Slots of the visible facts with this content id, oldest first. A hidden fact costs no more
    than an absent one."""
    slots = known(view, authorization, moment, view.cid_slots(cid_number(cid)))
    wanted = {
        row.from_position
        for row in reader.rows(view.from_position[slots].tolist())
        if row.cid == cid
    }
    return [n for n in slots.tolist() if int(view.from_position[n]) in wanted]


def content_hash(row: FactRow) -> str:
    """The 64 hex digits that children name as their parent."""
    return (row.cid or row.computed_cid()).removeprefix("sha256:")
