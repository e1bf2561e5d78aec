"""Attributes of facts: what abmind ranks by, as each fact was stated and as set since."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from eventlog.event import Recorded
from eventlog.kinds import FactAsserted, FactAttributes
from projections.database import query, query_one
from projections.erasing import FACTS
from projections.facts import fact_id

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FactAttributes).decode

PLAIN = FactAttributes()
"""What a fact has that says nothing of itself."""

CORE_EMOTION_MIN = 4
"""From this strength of emotion on, of either sign, a memory belongs to the core."""
CONFIDENTIAL = 2
"""The lowest classification that only the source of a fact may read."""
CONFIDENTIAL_SCOPES = frozenset({"local", "team"})
"""Where such facts may stand outside gardens: peers are given the other scopes."""


def settled(attributes: FactAttributes) -> FactAttributes:
    """With the tier that the emotion asks for."""
    if abs(attributes.emotion_score) >= CORE_EMOTION_MIN and attributes.tier != "core":
        return msgspec.structs.replace(attributes, tier="core")
    return attributes


def encoded(attributes: FactAttributes | None) -> str:
    """The text of the table; empty for none."""
    return "" if attributes is None else _encode(attributes).decode()


def decoded(text: str) -> FactAttributes:
    """From the text of the table."""
    return _decode(text) if text else PLAIN


def misplaced(attributes: FactAttributes | None, scope: str, garden: str | None) -> bool:
    """Whether a fact is too confidential for where it stands."""
    return (
        attributes is not None
        and attributes.classification >= CONFIDENTIAL
        and garden is None
        and scope not in CONFIDENTIAL_SCOPES
    )


def attributes_at(db: apsw.Connection, fact: str, position: int) -> FactAttributes | None:
    """A fact's attributes as they stood at a position; None where it had none."""
    row = query_one(
        db,
        "SELECT attributes FROM fact_attributes WHERE fact_id = ? AND position <= ?"
        " ORDER BY position DESC LIMIT 1",
        (fact, position),
    )
    return None if row is None else _decode(row[0])


class AttributesProjector:
    """``fact_attributes``: a row a fact that has any, and one more each time they change."""

    name = "attributes"
    version = 1
    tables = ("fact_attributes",)
    schema = """
    CREATE TABLE fact_attributes (
        position INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        attributes TEXT NOT NULL,
        PRIMARY KEY (position, fact_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX fact_attributes_by_fact ON fact_attributes (fact_id);
    """
    late_indexes = ""
    kinds = frozenset({"fact_asserted"})
    reads: frozenset[str] = frozenset()
    erasing = (f"DELETE FROM fact_attributes WHERE fact_id IN {FACTS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows = [
            (event.position, fact_id(event), _encode(event.payload.attributes).decode())
            for event in events
            if isinstance(event.payload, FactAsserted) and event.payload.attributes is not None
        ]
        if rows:
            db.executemany("INSERT INTO fact_attributes VALUES (?,?,?)", rows)


def load_attributes(db: apsw.Connection) -> list[tuple[int, str, FactAttributes]]:
    """(position, fact id, attributes) of every time they were set, oldest first."""
    rows = query(db, "SELECT position, fact_id, attributes FROM fact_attributes ORDER BY position")
    return [(position, fact, _decode(text)) for position, fact, text in rows]
