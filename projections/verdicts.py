"""``verdicts``: which facts the sanitizer found something in, and what a human decided on them.

Verdicts are made when a fact is written, whatever the mode, so that the modes can be
changed at any time and facts of other nodes are judged by this one. A review counts for the
whole history of its fact, as present rights do: asking about the past does not undo it.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec
from msgspec import Struct

from eventlog.event import Recorded
from eventlog.kinds import ContentReviewed, FactAsserted
from projections.database import query
from projections.erasing import FACTS, POSITIONS
from projections.facts import fact_id
from projections.moment import LIVE
from projections.sanitizing import NOTED, RULESET, verdict_of


class VerdictsProjector:
    """Rows of ``verdicts`` and ``content_reviews``."""

    name = "verdicts"
    version = RULESET
    tables = ("verdicts", "content_reviews")
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
    """
    late_indexes = ""
    kinds = frozenset({"fact_asserted", "content_reviewed"})
    reads: frozenset[str] = frozenset()
    erasing = (
        f"DELETE FROM verdicts WHERE from_position IN {POSITIONS}",
        f"DELETE FROM content_reviews WHERE fact_id IN {FACTS}",
    )

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            payload = event.payload
            if isinstance(payload, FactAsserted):
                verdict = verdict_of(payload)
                if verdict.codes:
                    db.execute(
                        "INSERT INTO verdicts VALUES (?,?,?,?,?)",
                        (
                            event.position,
                            fact_id(event),
                            RULESET,
                            msgspec.json.encode(verdict.codes).decode(),
                            verdict.flags,
                        ),
                    )
            else:
                assert isinstance(payload, ContentReviewed)
                self._review(event, payload, db)

    def _review(self, event: Recorded, review: ContentReviewed, db: apsw.Connection) -> None:
        db.execute(
            "UPDATE content_reviews SET to_position=? WHERE fact_id=? AND to_position=?",
            (event.position, review.fact_id, LIVE),
        )
        db.execute(
            "INSERT INTO content_reviews (fact_id, decision, reason, actor, decided_at,"
            " from_position) VALUES (?,?,?,?,?,?)",
            (
                review.fact_id,
                review.decision,
                review.reason,
                event.header.actor,
                event.received_at,
                event.position,
            ),
        )


class Review(Struct, frozen=True):
    """The decision that stands on a fact; ``decided_at`` in microseconds."""

    fact_id: str
    decision: str
    reason: str
    actor: str
    decided_at: int
    position: int


_REVIEW_COLUMNS = "fact_id, decision, reason, actor, decided_at, from_position"


def standing_flags(flags: int, decision: str | None) -> int:
    """What is left of a verdict's flags once somebody has decided: released facts keep
    their warnings and are not held back."""
    return flags & NOTED if decision == "release" else flags


def load_verdicts(db: apsw.Connection) -> list[tuple[str, int, str | None]]:
    """(fact id, flags, standing decision) of every fact with a verdict."""
    rows = query(
        db,
        "SELECT verdicts.fact_id, flags, decision FROM verdicts LEFT JOIN content_reviews"
        " ON content_reviews.fact_id=verdicts.fact_id AND to_position=?",
        (LIVE,),
    )
    return [(fact, flags, decision) for fact, flags, decision in rows]


def codes_at(db: apsw.Connection, positions: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Codes by the position of the fact, where it has any."""
    asked = msgspec.json.encode([int(position) for position in positions]).decode()
    rows = query(
        db,
        "SELECT from_position, codes FROM verdicts"
        " WHERE from_position IN (SELECT value FROM json_each(?))",
        (asked,),
    )
    return {position: tuple(msgspec.json.decode(codes)) for position, codes in rows}


def reviews_of(db: apsw.Connection, facts: Sequence[str]) -> dict[str, Review]:
    """The standing decision by fact id, where there is one."""
    asked = msgspec.json.encode(list(facts)).decode()
    rows = query(
        db,
        f"SELECT {_REVIEW_COLUMNS} FROM content_reviews"
        " WHERE to_position=? AND fact_id IN (SELECT value FROM json_each(?))",
        (LIVE, asked),
    )
    return {row[0]: Review(*row) for row in rows}
