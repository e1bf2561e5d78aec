"""``verdicts``: the facts with findings of the sanitizer, and a person's decisions on them.

Every mode makes the verdict when a fact is written, so the mode can change at any time. This node
judges facts of other nodes itself. A review applies to the whole history of its fact, as present
rights do: an as-of query does not undo it.
"""

from collections.abc import Mapping, Sequence

import apsw
import msgspec
import numpy as np
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ContentReviewed, FactAsserted
from engramlog.projections.arrays import I32, U8, Slots, grown
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import json_list, query
from engramlog.projections.tables.erasing import FACTS, POSITIONS
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import end_rows, insert_row
from engramlog.projections.text.sanitizing import NOTED, RULESET, verdict_of


class VerdictsProjector(Projector):
    """Rows of ``verdicts`` and ``content_reviews``."""

    name = "verdicts"
    version = RULESET
    schema = f"""
    CREATE TABLE verdicts (
        from_position INTEGER PRIMARY KEY,
        fact_id TEXT NOT NULL,
        ruleset INTEGER NOT NULL,
        codes TEXT NOT NULL,
        flags INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE content_reviews (
        fact_id TEXT NOT NULL,
        decision TEXT NOT NULL,
        reason TEXT NOT NULL,
        actor TEXT NOT NULL,
        decided_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (fact_id, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX content_reviews_live ON content_reviews (fact_id)
        WHERE to_position = {LIVE};
    """
    kinds = frozenset({"fact_asserted", "content_reviewed"})
    erasing = (
        f"DELETE FROM verdicts WHERE from_position IN {POSITIONS}",
        f"DELETE FROM content_reviews WHERE fact_id IN {FACTS}",
    )

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, FactAsserted):
            verdict = verdict_of(payload)
            if verdict.codes:
                fact, codes, flags = fact_id(event), verdict.codes, verdict.flags
                insert_row(
                    db, "verdicts", event, fact_id=fact, ruleset=RULESET, codes=codes, flags=flags
                )
        else:
            assert isinstance(payload, ContentReviewed)
            end_rows(db, "content_reviews", event, fact_id=payload.fact_id)
            insert_row(db, "content_reviews", event, decided_at=event.received_at)


class ContentReview(Struct, frozen=True):
    """The current decision on a fact; ``decided_at`` in microseconds."""

    decision: str
    reason: str
    actor: str
    decided_at: int
    position: int


def remaining_flags(flags: int, decision: str | None) -> int:
    """The flags after a decision: a released fact keeps its warnings, no longer held back."""
    return flags & NOTED if decision == "release" else flags


_FLAGS = """
SELECT verdicts.fact_id, flags, decision FROM verdicts LEFT JOIN content_reviews
ON content_reviews.fact_id=verdicts.fact_id AND to_position=?
"""


class VerdictsPart(SmallPart):
    """Flags by slot: eight bits per fact, zero for nearly all. Readers may hold the array, so
    nothing changes inside it: a review makes a new array. Slots beyond its end have no flags."""

    kinds = VerdictsProjector.kinds

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.array: U8 = np.zeros(0, dtype=np.uint8)
        self._judged: dict[int, int] = {}

    def load(self, db: apsw.Connection) -> None:
        for fact, flags, decision in query(db, _FLAGS, (LIVE,)):
            slot = self._facts.slot_of.get(fact)
            if slot is not None:
                self.judge(slot, flags, decision)

    def fold_event(self, event: Recorded) -> None:
        payload = event.payload
        if isinstance(payload, FactAsserted):
            flags = verdict_of(payload).flags
            if flags:
                self.judge(self._facts.slot_of[fact_id(event)], flags)
        else:
            assert isinstance(payload, ContentReviewed)
            slot = self._facts.slot_of.get(payload.fact_id)
            if slot is not None:
                self.review(slot, payload.decision)

    def forget(self, facts: Mapping[str, int]) -> None:
        # Changes an array that readers may hold: no caller's rights reach erased slots.
        for slot in facts.values():
            if self._judged.pop(slot, None) is not None:
                self.array[slot] = 0

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self._judged, self.array.tobytes()))

    def restore(self, state: bytes) -> None:
        self._judged, flags = msgspec.msgpack.decode(state, type=tuple[dict[int, int], bytes])
        self.array = np.frombuffer(bytearray(flags), dtype=np.uint8)

    def judge(self, slot: int, flags: int, decision: str | None = None) -> None:
        """Flag a fact before it is published to readers."""
        self._judged[slot] = flags
        if slot >= len(self.array):
            self.array = grown(self.array, max(1024, 2 * slot))
        self.array[slot] = remaining_flags(flags, decision)

    def hold(self, slots: I32, flags: U8) -> None:
        """Give facts these flags, whatever was decided. Before the first reader."""
        changed = grown(self.array, max(len(self.array), int(slots.max(initial=-1)) + 1))
        changed[slots] = flags
        self.array = changed

    def review(self, slot: int, decision: str) -> None:
        """Record a decision on a fact that has a verdict."""
        flags = self._judged.get(slot)
        if flags is not None:
            changed = self.array.copy()
            changed[slot] = remaining_flags(flags, decision)
            self.array = changed


def flags_at(array: U8, slots: Slots) -> U8:
    """By slot: the flags, 0 beyond the array's end."""
    if not len(array):
        return np.zeros(np.shape(slots), dtype=np.uint8)
    last = len(array) - 1
    flags: U8 = array[np.minimum(slots, last)] * (slots <= last)
    return flags


def codes_at(db: apsw.Connection, positions: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Codes by the position of the fact; only facts with codes."""
    asked = json_list(int(position) for position in positions)
    sql = """SELECT from_position, codes FROM verdicts
        WHERE from_position IN (SELECT value FROM json_each(?))"""
    rows = query(db, sql, (asked,))
    return {position: tuple(msgspec.json.decode(codes)) for position, codes in rows}


def reviews_of(db: apsw.Connection, facts: Sequence[str]) -> dict[str, ContentReview]:
    """The current decision by fact id; only facts with one."""
    sql = """SELECT fact_id, decision, reason, actor, decided_at, from_position FROM content_reviews
        WHERE to_position=? AND fact_id IN (SELECT value FROM json_each(?))"""
    rows = query(db, sql, (LIVE, json_list(facts)))
    return {fact_id: ContentReview(*review) for fact_id, *review in rows}
