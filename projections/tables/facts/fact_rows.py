"""Rows of ``facts`` for queries."""

from collections.abc import Sequence

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.kinds import Attestation, FactAsserted, Parent, Value
from engramlog.projections.cid import cid_of
from engramlog.projections.tables.database import json_list, query

_decode_parents = msgspec.json.Decoder(list[Parent]).decode
_decode_attestation = msgspec.json.Decoder(Attestation).decode


class FactRow(Struct, frozen=True, gc=False):
    """The immutable part of a fact, as the log recorded it."""

    from_position: int
    id: str
    entity: str
    relation: str
    value_type: str
    value_v: str
    interpret_as: str
    source: str
    scope: str
    garden_id: str | None
    base_confidence: float
    valid_from: str | None
    valid_until: str | None
    hlc: int
    recorded_at: int
    cid: str
    parents_json: str
    write_mode: str
    actor: str
    origin: str
    received_from: str | None
    attestation_json: str | None = None

    @property
    def position(self) -> int:
        """The log position that recorded the fact."""
        return self.from_position

    @property
    def value(self) -> Value:
        return Value(self.value_type, self.value_v, self.interpret_as)  # pyright: ignore[reportArgumentType]

    def stated(self) -> FactAsserted:
        """The statement of this fact, without attributes."""
        return FactAsserted(
            entity=self.entity,
            relation=self.relation,
            value=self.value,
            source=self.source,
            scope=self.scope,  # pyright: ignore[reportArgumentType]
            confidence=self.base_confidence,
            cid=self.cid,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
            derived_from=self.derived_from,
            write_mode=self.write_mode,  # pyright: ignore[reportArgumentType]
            garden_id=self.garden_id,
            attestation=self.attestation,
        )

    def computed_cid(self) -> str:
        """The content id of this content."""
        return cid_of(self.stated())

    @property
    def derived_from(self) -> list[Parent]:
        """The parents, as the source gave them."""
        return [] if self.parents_json == "[]" else _decode_parents(self.parents_json)

    @property
    def attestation(self) -> Attestation | None:
        """The source's signature, if it gave one."""
        return None if self.attestation_json is None else _decode_attestation(self.attestation_json)


_ROW_COLUMNS = """from_position, id, entity, relation, value_type, value_v, interpret_as, source,
    scope, garden_id, base_confidence, valid_from, valid_until, hlc, recorded_at, cid,
    derived_from, write_mode, actor, origin, received_from, attestation"""
_FETCH_ONE = f"SELECT {_ROW_COLUMNS} FROM fact_rows WHERE from_position=?"
_FETCH_MANY = f"""
SELECT {_ROW_COLUMNS} FROM fact_rows WHERE from_position IN (SELECT value FROM json_each(?))
"""


def fetch(db: apsw.Connection, positions: Sequence[int]) -> list[FactRow]:
    """The facts asserted at ``positions``, in that order; absent ones are left out."""
    if len(positions) == 1:
        return [FactRow(*row) for row in query(db, _FETCH_ONE, (int(positions[0]),))]
    wanted = [int(position) for position in positions]
    by_position = {row[0]: FactRow(*row) for row in query(db, _FETCH_MANY, (json_list(wanted),))}
    return [by_position[position] for position in wanted if position in by_position]


SAID_PAGE_ROWS = 20_000
_SAID = "SELECT from_position, id, entity, relation, value_v FROM fact_rows WHERE from_position"


class SaidRow(Struct, frozen=True, gc=False):
    """What a fact says."""

    from_position: int
    id: str
    entity: str
    relation: str
    value_v: str


def said_after(db: apsw.Connection, position: int) -> list[SaidRow]:
    """The next facts asserted after a position."""
    sql = f"{_SAID}>? ORDER BY from_position LIMIT ?"
    return [SaidRow(*row) for row in query(db, sql, (position, SAID_PAGE_ROWS))]


def said_at(db: apsw.Connection, positions: Sequence[int]) -> list[SaidRow]:
    """The facts asserted at ``positions``, which ascend; absent ones are left out."""
    sql = f"{_SAID} IN (SELECT value FROM json_each(?)) ORDER BY from_position"
    return [SaidRow(*row) for row in query(db, sql, (json_list(positions),))]
