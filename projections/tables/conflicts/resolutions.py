"""``resolved_facts``: which facts each resolution settled, by the fact that records it, its note.

A note is about the entity of the settled facts. They may arrive after it, in another stream, or be
erased. Erasing a resolution's event deletes its rows.

Resolutions of peers are read too, whether or not they take effect here: a node that erased a losing
fact never applies them, but must hide the same notes as the others. Only a resolution by the note's
own node counts, so that a peer cannot hide other nodes' facts.
"""

from collections.abc import Callable, Iterator, Mapping

import apsw
import msgspec
import numpy as np
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import ConflictResolved, FactErased
from engramlog.projections.arrays import I32
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.tables.database import query
from engramlog.projections.tables.erasing import EVENTS, FACTS
from engramlog.projections.tables.projector import Projector, SmallPart

_EVERY = """
SELECT note_id, origin, event_id, fact_id FROM resolved_facts ORDER BY note_id, origin, number
"""
_DROP = "DELETE FROM resolved_facts WHERE note_id=? AND origin=?"


class ResolutionsProjector(Projector):
    """Rows of ``resolved_facts``."""

    name = "resolutions"
    version = 2
    schema = """
    CREATE TABLE resolved_facts (
        note_id TEXT NOT NULL,
        origin TEXT NOT NULL,
        number INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        event_id TEXT NOT NULL,
        PRIMARY KEY (note_id, origin, number)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"conflict_resolved"})
    erasing = (
        f"DELETE FROM resolved_facts"
        f" WHERE note_id IN {FACTS} OR fact_id IN {FACTS} OR event_id IN {EVENTS}",
    )

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        key, settled = _settlement_of(event)
        db.execute(_DROP, key)
        rows = [(*key, n, fact, settled.event_id) for n, fact in enumerate(settled.facts)]
        db.executemany("INSERT INTO resolved_facts VALUES (?,?,?,?,?)", rows)


_Key = tuple[str, str]
"""A note, and the node of the resolution that names it."""


class _Settled(Struct):
    """The facts that a resolution settled, the winner first."""

    event_id: str
    facts: list[str]


class _Pairs(Struct, frozen=True):
    """Each note and a fact that it is about, by slot. ``changes``: how often resolutions had
    changed; ``facts``: how many facts there were, None if no note or fact was awaited."""

    changes: int
    facts: int | None
    slots: tuple[I32, I32]


class ResolutionsPart(SmallPart):
    """The entity that each resolution's note is about."""

    kinds = frozenset({"conflict_resolved", "fact_erased"})

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self._settlement_of: dict[_Key, _Settled] = {}
        self._changes = 0
        self._pairs: _Pairs | None = None

    def load(self, db: apsw.Connection) -> None:
        for note, origin, event_id, fact in query(db, _EVERY):
            settled = self._settlement_of.setdefault((note, origin), _Settled(event_id, []))
            settled.facts.append(fact)

    def fold_event(self, event: Recorded) -> None:
        if isinstance(event.payload, FactErased):
            gone = set(event.payload.events)
            self._keep(lambda _, settled: settled.event_id not in gone)
        else:
            key, settled = _settlement_of(event)
            self._settlement_of[key] = settled
            self._changes += 1

    def forget(self, facts: Mapping[str, int]) -> None:
        for settled in self._settlement_of.values():
            settled.facts = [fact for fact in settled.facts if fact not in facts]
        self._keep(lambda note, settled: note not in facts and bool(settled.facts))

    def learn(self, other: "ResolutionsPart") -> None:
        """Add what another part knows of notes. Before the first reader."""
        self._settlement_of = dict(list(other._settlement_of.items())) | self._settlement_of
        self._changes += 1

    def _keep(self, wanted: Callable[[str, _Settled], bool]) -> None:
        self._settlement_of = {
            key: settled for key, settled in self._settlement_of.items() if wanted(key[0], settled)
        }
        self._changes += 1

    def state(self) -> bytes:
        return msgspec.msgpack.encode(list(self._settlement_of.items()))

    def restore(self, state: bytes) -> None:
        self._settlement_of = dict(msgspec.msgpack.decode(state, type=list[tuple[_Key, _Settled]]))

    def notes(self) -> dict[int, int]:
        """By slot of a note: the number of the entity it is about."""
        entity = self._facts.arrays["entity"]
        return {note: int(entity[facts[0]]) for note, facts in self._slots()}

    def pairs(self) -> tuple[I32, I32]:
        """Each note and a fact known here that it is about, by slot. In any thread."""
        cached, changes, count = self._pairs, self._changes, len(self._facts.slot_of)
        if cached is None or cached.changes != changes or cached.facts not in (None, count):
            pairs = [(note, fact) for note, facts in self._slots() for fact in facts]
            columns: I32 = np.array(pairs, dtype=np.int32).reshape(-1, 2)
            incomplete = count if self.awaited() else None
            cached = self._pairs = _Pairs(changes, incomplete, (columns[:, 0], columns[:, 1]))
        return cached.slots

    def _slots(self) -> Iterator[tuple[int, list[int]]]:
        slot_of, arrays = self._facts.slot_of, self._facts.arrays
        for (note, origin), settled in list(self._settlement_of.items()):
            slot = slot_of.get(note)
            if slot is None or self._facts.origins.text(int(arrays["origin"][slot])) != origin:
                continue
            known = [slot_of[fact] for fact in settled.facts if fact in slot_of]
            if known:
                yield slot, known

    def awaited(self) -> frozenset[str]:
        """Notes, and facts that notes are about, that have not arrived yet."""
        slot_of = self._facts.slot_of
        settlements = list(self._settlement_of.items())
        named = {fact for _, settled in settlements for fact in settled.facts}
        named |= {note for (note, _), _ in settlements}
        return frozenset(name for name in named if name not in slot_of)


def _settlement_of(event: Recorded) -> tuple[_Key, _Settled]:
    """A resolution's note with its origin, and the facts it settled."""
    resolution = event.payload
    assert isinstance(resolution, ConflictResolved)
    facts = [resolution.winner_id, *resolution.loser_ids]
    key = (resolution.resolution_fact_id, event.header.origin)
    return key, _Settled(id_text(event.event_id), facts)
