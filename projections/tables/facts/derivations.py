"""``derivations``: the content hashes that each content was derived from (seed §20.6).

Links are stored as given and may dangle. The writer refuses a fact that closes a cycle it can see.
Two nodes may each accept half of a cycle, so walks tolerate cycles.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.tables.database import query
from engramlog.projections.tables.erasing import POSITIONS
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.tables.projector import Projector, SmallPart

WALK_HASHES_MAX = 10_000
WALK_LINKS_MAX = 100_000

_LINKS = "SELECT from_position, parent_hash FROM derivations ORDER BY from_position"
_PARENTS = """
SELECT parent_hash, facts.id, received_from IS NULL
FROM derivations JOIN fact_rows AS facts USING (from_position)
WHERE child_hash=?1 AND (garden_id IS NULL OR garden_id IS ?2)
"""
_CHILDREN = """
SELECT facts.id FROM derivations JOIN fact_rows AS facts USING (from_position)
WHERE parent_hash=?1 AND (garden_id IS NULL OR garden_id IS ?2)
"""


class DerivationsProjector(Projector):
    """Rows of ``derivations``: child content hash → parent content hash."""

    name = "derivations"
    version = 2
    schema = """
    CREATE TABLE derivations (
        child_hash TEXT NOT NULL,
        parent_hash TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        PRIMARY KEY (child_hash, parent_hash, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX derivations_by_parent ON derivations (parent_hash);
    """
    kinds = frozenset({"fact_asserted"})
    erasing = (f"DELETE FROM derivations WHERE from_position IN {POSITIONS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[str, str, int]] = []
        for event in events:
            fact = event.payload
            assert isinstance(fact, FactAsserted)
            if fact.derived_from:
                child = fact.cid.removeprefix("sha256:")
                rows.extend(
                    (child, parent, event.position)
                    for parent in sorted({parent.hash for parent in fact.derived_from})
                )
        if rows:
            db.executemany("INSERT INTO derivations VALUES (?,?,?)", rows)


class DerivationsPart(SmallPart):
    """The parents of each derived fact."""

    kinds = DerivationsProjector.kinds

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.parents: dict[int, tuple[int, ...]] = {}
        """By slot of a derived fact: ``cid_number`` of each parent."""

    def load(self, db: apsw.Connection) -> None:
        starts = self._facts.cut().from_position
        for position, links in groupby(query(db, _LINKS), key=itemgetter(0)):
            slot = int(starts.searchsorted(int(position)))
            self._derive(slot, [parent for _, parent in links])

    def fold_event(self, event: Recorded) -> None:
        fact = event.payload
        assert isinstance(fact, FactAsserted)
        if fact.derived_from:
            slot = self._facts.slot_of[fact_id(event)]
            self._derive(slot, [parent.hash for parent in fact.derived_from])

    def forget(self, facts: Mapping[str, int]) -> None:
        for slot in facts.values():
            self.parents.pop(slot, None)

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self.parents)

    def restore(self, state: bytes) -> None:
        self.parents = msgspec.msgpack.decode(state, type=dict[int, tuple[int, ...]])

    def _derive(self, slot: int, hashes: Sequence[str]) -> None:
        self.parents[slot] = tuple(sorted({int(each[:16], 16) for each in hashes}))


def closes_cycle(
    db: apsw.Connection,
    child_hash: str,
    parents: Iterable[str],
    garden_id: str | None,
    readable: Callable[[Iterable[str]], frozenset[str]],
    stated_here: Callable[[str], bool],
) -> bool:
    """Whether content ``child_hash`` derived from ``parents`` would be its own ancestor.

    Follows only links of facts that the writer may read (``readable``), in the written garden or in
    none: a refusal must not reveal private facts of others. Of content that this node has stated
    itself (``stated_here``), only its own links count: a peer could repeat it with other parents.
    A cycle through unreadable facts, or through two nodes, is accepted; every walk stops at content
    it has seen.

    Content from which nothing was derived yet, as nearly all new content, cannot close one. For
    other content, follows at most ``WALK_HASHES_MAX`` ancestors and ``WALK_LINKS_MAX`` links. A
    larger history counts as a cycle, so the check is bounded and never accepts an unfinished walk.
    """
    seen: set[str] = set()
    waiting = list(parents)
    followed = 0
    children = [str(fact) for (fact,) in query(db, _CHILDREN, (child_hash, garden_id))]
    if child_hash not in waiting and not readable(children):
        return False
    while waiting:
        parent = waiting.pop()
        if parent == child_hash:
            return True
        if parent in seen:
            continue
        seen.add(parent)
        if len(seen) > WALK_HASHES_MAX:
            return True
        rows = query(db, _PARENTS, (parent, garden_id))
        shown = readable([fact for _, fact, _ in rows])
        links = [(link, ours) for link, fact, ours in rows if fact in shown]
        ours_alone = not all(ours for _, ours in links) and stated_here(parent)
        waiting.extend(link for link, ours in links if ours or not ours_alone)
        followed += len(links)
        if followed > WALK_LINKS_MAX:
            return True
    return False
