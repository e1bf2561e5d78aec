"""Attributes of facts, which abmind ranks by: as first stated, and each later change."""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted, FactAttributes, FactAttributesSet
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.memories.attribute_rules import CONFIDENTIAL, PLAIN, as_received, may_set
from engramlog.projections.tables.database import json_list, query, query_column, query_value
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.tables.projector import Projector, SmallPart

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FactAttributes).decode

_EVERY = "SELECT position, fact_id, attributes FROM fact_attributes ORDER BY position"
_ORIGIN = "SELECT origin FROM fact_rows WHERE id = ?"


def encoded(attributes: FactAttributes | None) -> str:
    """Attributes as the table holds them; empty text for none."""
    return "" if attributes is None else _encode(attributes).decode()


def decoded(text: str) -> FactAttributes:
    return _decode(text) if text else PLAIN


def present_attributes(db: apsw.Connection, fact: str) -> FactAttributes | None:
    newest = "fact_attributes WHERE fact_id = ? ORDER BY position DESC LIMIT 1"
    text = query_value(db, f"SELECT attributes FROM {newest}", (fact,))
    return None if text is None else _decode(text)


class AttributesProjector(Projector):
    """``fact_attributes``: one row per fact with attributes, and one more per change."""

    name = "attributes"
    version = 2
    schema = """
    CREATE TABLE fact_attributes (
        position INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        attributes TEXT NOT NULL,
        PRIMARY KEY (position, fact_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX fact_attributes_by_fact ON fact_attributes (fact_id);
    """
    kinds = frozenset({"fact_asserted", "fact_attributes_set"})
    reads = frozenset({"facts"})
    erasing = (f"DELETE FROM fact_attributes WHERE fact_id IN {FACTS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[int, str, str]] = []
        for event in events:
            payload = event.payload
            if isinstance(payload, FactAsserted):
                if payload.attributes is not None:
                    stated = as_received(event, payload.attributes)
                    rows.append((event.position, fact_id(event), encoded(stated)))
            elif isinstance(payload, FactAttributesSet):
                origin = query_value(db, _ORIGIN, (payload.fact_id,))
                if origin is not None and may_set(event, origin):
                    word = as_received(event, payload.attributes)
                    rows.append((event.position, payload.fact_id, encoded(word)))
        if rows:
            db.executemany("INSERT INTO fact_attributes VALUES (?,?,?)", rows)


_decode_state = msgspec.msgpack.Decoder(
    tuple[dict[int, list[tuple[int, FactAttributes]]], bool]
).decode


class AttributesPart(SmallPart):
    """The attributes of each fact, and the newest classification of each."""

    kinds = AttributesProjector.kinds

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.by_slot: dict[int, list[tuple[int, FactAttributes]]] = {}
        """By slot of a fact with attributes: (position, attributes from there on), ascending."""
        self.confidential = False
        """Whether a classification ever restricted who may read a fact."""

    def load(self, db: apsw.Connection) -> None:
        for position, fact, text in query(db, _EVERY):
            self._set(fact, position, _decode(text))

    def fold_event(self, event: Recorded) -> None:
        payload = event.payload
        if isinstance(payload, FactAsserted):
            if payload.attributes is not None:
                stated = as_received(event, payload.attributes)
                self._set(fact_id(event), event.position, stated)
        elif isinstance(payload, FactAttributesSet):
            slot = self._facts.slot_of.get(payload.fact_id)
            if slot is None:
                return
            origin = self._facts.origins.text(int(self._facts.arrays["origin"][slot]))
            if may_set(event, origin):
                word = as_received(event, payload.attributes)
                self._set(payload.fact_id, event.position, word)

    def forget(self, facts: Mapping[str, int]) -> None:
        for slot in facts.values():
            self.by_slot.pop(slot, None)

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self.by_slot, self.confidential))

    def restore(self, state: bytes) -> None:
        # Readers may hold the old dictionary: replace it.
        by_slot, self.confidential = _decode_state(state)
        self.by_slot.update(by_slot)

    def _set(self, fact: str, position: int, attributes: FactAttributes) -> None:
        """Record a fact's attributes; its newest classification applies to the past as well."""
        slot = self._facts.slot_of.get(fact)
        if slot is not None:
            self.by_slot.setdefault(slot, []).append((position, attributes))
            self.confidential |= attributes.classification >= CONFIDENTIAL
            self._facts.arrays["classification"][slot] = attributes.classification


def level_of(column: str) -> str:
    """A SQL expression for the newest classification of the fact in ``column``."""
    return (
        "coalesce((SELECT coalesce(json_extract(a.attributes, '$.classification'), 1)"
        f" FROM fact_attributes a WHERE a.fact_id = {column}"
        f" ORDER BY a.position DESC LIMIT 1), {OPEN_CLASS})"
    )


def cleared_rows(column: str, authorization: Authorization) -> tuple[str, dict[str, Any]]:
    """A SQL condition with its bindings: true for rows whose fact, named by ``column``, the
    caller's classification ceiling admits, and for rows without a fact."""
    level = level_of(column)
    condition = (
        f"({column} IS NULL OR ({level} <= :ceiling AND ({level} <= {OPEN_CLASS}"
        " OR :every_garden OR EXISTS (SELECT 1 FROM fact_rows AS own"
        f" WHERE own.id = {column} AND own.source = :principal))))"
    )
    bindings = {
        "ceiling": authorization.ceiling,
        "every_garden": authorization.every_garden,
        "principal": authorization.principal,
    }
    return condition, bindings


def attributed(db: apsw.Connection, facts: Sequence[str]) -> list[int]:
    """Positions of the events that set the facts' attributes."""
    sql = "SELECT position FROM fact_attributes WHERE fact_id IN (SELECT value FROM json_each(?))"
    return query_column(db, sql, (json_list(facts),))
