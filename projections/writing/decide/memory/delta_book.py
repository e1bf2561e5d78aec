"""The facts that a batch of deltas needs to know, and its effects on them."""

import json
from collections.abc import Iterable

from msgspec import Struct

from engramlog.eventlog.event import fact_partition
from engramlog.eventlog.kinds import Value
from engramlog.projections.episodes.delta import (
    FactConflictError,
    Proposal,
    payload_of,
    replaced_by,
)
from engramlog.projections.episodes.shown import hides
from engramlog.projections.episodes.stating import StatedFact
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import json_list, query
from engramlog.projections.writing.decide.authority import moderates
from engramlog.projections.writing.decide.context import Context
from engramlog.projections.writing.decide.readable import readable
from engramlog.projections.writing.memory_commands import ApplyDeltas

# CROSS JOIN, here and below, fixes the join order: the requested names are few.
_KNOWN = """
SELECT d.delta_id, d.fact_id, d.retracted, f.source FROM deltas d
LEFT JOIN fact_rows f ON f.id=d.fact_id AND f.received_from IS NULL
WHERE d.delta_id IN (SELECT value FROM json_each(?)) AND d.peer IS NULL
"""
_COLUMNS = """m.name, m.fact_id, m.user, m.agent, f.to_position, f.entity, f.relation,
    f.value_type, f.value_v, f.base_confidence, f.source, f.received_from IS NULL,
    f.from_position"""
_NAMED = f"""
SELECT {_COLUMNS} FROM json_each(?2) n
CROSS JOIN memory_facts m ON m.partition=?1 AND m.name=n.value
CROSS JOIN fact_rows f ON f.id=m.fact_id AND f.origin=m.origin
UNION
SELECT {_COLUMNS} FROM json_each(?2) n CROSS JOIN memory_facts m ON m.fact_id=n.value
CROSS JOIN fact_rows f ON f.id=m.fact_id AND f.origin=m.origin
WHERE +m.partition=?1
ORDER BY 2
"""
_RIVAL = f"""
SELECT f.id, f.source FROM fact_rows f JOIN memory_facts m ON m.fact_id=f.id AND m.origin=f.origin
WHERE f.entity=? AND f.relation=? AND f.scope=? AND f.garden_id IS ? AND m.user=? AND m.agent=?
  AND f.to_position={LIVE} AND f.base_confidence>0 AND (f.value_type, f.value_v)<>(?,?)
ORDER BY f.from_position
"""
_HASHES = """
SELECT e.id, hash, user, agent, session, metadata FROM json_each(?2) n
CROSS JOIN episodes e ON e.partition=?1 AND e.id=n.value
ORDER BY e.peer IS NULL, e.actor=?3, position DESC
"""
"""The last row of an id counts: the caller's own, else the oldest recorded here or of a peer."""


class DeltaFact(Struct, gc=False):
    """A live or ended fact of a delta. ``ours``: stated here; ``fresh``: stated in this batch."""

    name: str
    fact_id: str
    user: str
    agent: str
    live: bool
    entity: str
    relation: str
    value_type: str
    value_v: str
    confidence: float
    source: str
    ours: int = True
    position: int = LIVE
    fresh: bool = False

    def says(self, statement: StatedFact) -> bool:
        """Whether the fact has exactly this content, of any confidence."""
        value = statement.value
        return (self.entity, self.relation, self.value_type, self.value_v) == (
            statement.entity,
            statement.relation,
            value.type,
            value.v,
        )


class KnownDelta(Struct, frozen=True, gc=False):
    """A delta applied before: the fact that it states, its ``source``, and what it ended."""

    fact_id: str | None
    source: str | None
    retracted: tuple[str, ...]


class DeltaBook:
    """Facts by name and id. Read once for a whole batch, then updated in memory. Any writer may use
    a name or repeat another's delta. So a delta looks first at facts that its source or caller may
    end, and only its own source has stated what it states."""

    def __init__(self, command: ApplyDeltas, context: Context) -> None:
        self._db = context.db
        self._context, self._rights = context, command.rights
        self._moderates = moderates(context, command.rights, command.garden_id)
        partition = fact_partition(command.scope, command.garden_id)
        proposals = command.proposals
        ids = json_list({proposal.delta_id: None for proposal in proposals})
        self._known = self._applied(ids)
        self._named: dict[str, list[DeltaFact]] = {}
        self._by_id: dict[str, DeltaFact] = {}
        rows = query(self._db, _NAMED, (partition, json_list(dict.fromkeys(_names(proposals)))))
        shown = self._readable(row[1] for row in rows)
        for row in rows:
            name, fact_id, user, agent, end, *said = row
            if fact_id not in shown:
                continue
            fact = DeltaFact(name, fact_id, user, agent, end == LIVE, *said)
            fact.live &= fact.confidence > 0.0
            self._add(fact)
        sources = json_list({each: None for p in proposals for each in p.delta.source_episode_ids})
        hiding = context.image.tombstones.hiding
        self._hashes: dict[str, str] = {
            name: digest
            for name, digest, user, agent, session, told in query(
                self._db, _HASHES, (partition, sources, context.actor)
            )
            if not hiding
            or not hides(hiding, user, agent, session, command.scope, json.loads(told))
        }
        self._fresh: dict[tuple[MemoryPlace, str, str], list[DeltaFact]] = {}

    def _readable(self, facts: Iterable[str]) -> frozenset[str]:
        """The facts among these that the caller may read; others look absent."""
        return readable(self._context, self._rights, facts)

    def _applied(self, ids: str) -> dict[str, list[KnownDelta]]:
        """The deltas that were applied before, as far as the caller may read their facts."""
        rows = [
            (str(name), fact, tuple[str, ...](json.loads(ended)), source)
            for name, fact, ended, source in query(self._db, _KNOWN, (ids,))
        ]
        shown = self._readable(
            each for _, fact, ended, _ in rows for each in (*ended, fact) if each is not None
        )
        known: dict[str, list[KnownDelta]] = {}
        for name, fact, ended, source in rows:
            if fact in shown if fact is not None else not ended or not shown.isdisjoint(ended):
                left = tuple(each for each in ended if each in shown)
                known.setdefault(name, []).append(KnownDelta(fact, source, left))
        return known

    def known(self, proposal: Proposal) -> KnownDelta | None:
        """The same delta of the same source, if it was applied before."""
        for known in self._known.get(proposal.delta_id, ()):
            if known.fact_id is None or known.source == proposal.source:
                return known
        return None

    def may_end(self, source: str, proposal: Proposal) -> bool:
        """Whether a delta may end facts of a source. A rule's may end those of its own source."""
        if source == proposal.source or self._moderates:
            return True
        return self._rights is not None and self._rights.may_end(source)

    def _add(self, fact: DeltaFact) -> None:
        self._by_id[fact.fact_id] = fact
        self._named.setdefault(fact.name, []).append(fact)

    def newest(self, name: str, proposal: Proposal) -> DeltaFact | None:
        """The newest fact with this name or id in the delta's place. One that the delta may end
        comes first, then a live one, then this node's before a peer's, whose id may claim any
        time."""
        mine = self._mine(name, proposal.place)
        if mine:
            return max(
                reversed(mine),
                key=lambda fact: (self.may_end(fact.source, proposal), fact.live, fact.ours),
            )
        fact = self._by_id.get(name)
        return fact if fact is not None and _lies_in(fact, proposal.place) else None

    def version(self, fact: DeltaFact, place: MemoryPlace) -> int:
        """How many facts have had a fact's name, up to its own statement."""
        return sum(each.position <= fact.position for each in self._mine(fact.name, place))

    def _mine(self, name: str, place: MemoryPlace) -> list[DeltaFact]:
        return [fact for fact in self._named.get(name, ()) if _lies_in(fact, place)]

    def find(self, name: str, proposal: Proposal) -> DeltaFact:
        """The fact that ``replaces`` names. Raises FactConflictError unless it is live."""
        delta_id = proposal.delta_id
        fact = self.newest(name, proposal)
        if fact is None:
            if name in self._named or name in self._by_id:
                message = f"fact {name!r} belongs to another user or agent"
                raise FactConflictError("scope_mismatch", message, delta_id)
            raise FactConflictError("missing", f"there is no fact {name!r}", delta_id)
        if not fact.live:
            raise FactConflictError("already_retracted", f"fact {name!r} no longer holds", delta_id)
        return fact

    def rival(self, statement: StatedFact, proposal: Proposal) -> str | None:
        """A live fact of the place with another value for the same entity and relation, which the
        delta could replace."""
        value, place = statement.value, proposal.place
        key = (statement.entity, statement.relation, place.scope, place.garden_id)
        row = (*key, place.user, place.agent, value.type, value.v)
        rivals = [
            str(fact)
            for fact, source in query(self._db, _RIVAL, row)
            if self.may_end(source, proposal)
        ]
        shown = self._readable(rivals)
        for found in (rival for rival in rivals if rival in shown):
            known = self._by_id.get(found)
            if known is None or known.live:
                return found
        for fact in self._fresh.get((place, statement.entity, statement.relation), ()):
            if fact.live and not fact.says(statement) and self.may_end(fact.source, proposal):
                return fact.fact_id
        return None

    def state(self, fact_id: str, proposal: Proposal, statement: StatedFact) -> None:
        """Add a fact that the batch states."""
        value: Value = statement.value
        name, place = statement.name or fact_id, proposal.place
        fact = DeltaFact(
            name, fact_id, place.user, place.agent, True, statement.entity, statement.relation,
            value.type, value.v, proposal.delta.confidence, proposal.source, fresh=True,
        )  # fmt: skip
        self._add(fact)
        self._fresh.setdefault((place, fact.entity, fact.relation), []).append(fact)

    def note(self, proposal: Proposal, fact_id: str | None, retracted: tuple[str, ...]) -> None:
        """Record that the batch applies a delta: the same delta again is a repetition."""
        known = KnownDelta(fact_id, proposal.source, retracted)
        self._known.setdefault(proposal.delta_id, []).append(known)

    def hashes(self, proposal: Proposal) -> list[str]:
        """Hashes of those source episodes that exist here and no tombstone hides."""
        if proposal.episodes is not None:
            return proposal.episodes
        named = proposal.delta.source_episode_ids
        return [self._hashes[each] for each in named if each in self._hashes]


def _lies_in(fact: DeltaFact, place: MemoryPlace) -> bool:
    return fact.user == place.user and fact.agent == place.agent


def _names(proposals: Iterable[Proposal]) -> Iterable[str]:
    for proposal in proposals:
        yield from replaced_by(proposal.delta)
        payload = payload_of(proposal.delta)
        name = None if payload is None else payload.get("id")
        if isinstance(name, str):
            yield name
