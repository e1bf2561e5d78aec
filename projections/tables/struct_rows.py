"""Rows from events and as structs: a column holds the field of its name. Lists, dictionaries and
structs are JSON in the tables.

For tables of few rows; the large ones (facts, edges, episodes, deltas) write out their columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec import Struct, inspect

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import Payload
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import Bindings, query

AnyRow = TypeVar("AnyRow", bound=Struct)
_PLAIN = (
    inspect.StrType, inspect.IntType, inspect.FloatType, inspect.LiteralType, inspect.NoneType,
)  # fmt: skip


def insert_row(
    db: apsw.Connection,
    table: str,
    event: Recorded,
    *,
    or_ignore: bool = False,
    **values: object,
) -> None:
    """Insert the row of an event. A column takes its value from ``values``, else from the field of
    its name in the payload, the header or the event, else it keeps its default.
    ``from_position`` is the event's.

    Args:
        or_ignore: leave an existing row with the same key.
    """
    assert isinstance(event.payload, Payload)
    row: dict[str, apsw.SQLiteValue] = {}
    for _, column, *_ in query(db, f"PRAGMA table_info({table})"):
        if column in values:
            row[column] = _stored(values.pop(column))
            continue
        sources = (event.payload, event.header, event)
        source = next((each for each in sources if column in each.__struct_fields__), None)
        if source is not None:
            row[column] = _stored(getattr(source, column))
        elif column == "from_position":
            row[column] = event.position
    assert not values, f"{table} has no columns {sorted(values)}"
    verb = "INSERT OR IGNORE" if or_ignore else "INSERT"
    places = ",".join("?" * len(row))
    db.execute(f"{verb} INTO {table} ({','.join(row)}) VALUES ({places})", tuple(row.values()))


def end_rows(db: apsw.Connection, table: str, event: Recorded, **key: apsw.SQLiteValue) -> None:
    """End the live rows with this key at the event."""
    wanted = "".join(f" AND {column}=?" for column in key)
    sql = f"UPDATE {table} SET to_position=? WHERE to_position={LIVE}{wanted}"
    db.execute(sql, (event.position, *key.values()))


def _stored(value: Any) -> apsw.SQLiteValue:
    if value is None or isinstance(value, str | int | float):
        return value
    return msgspec.json.encode(value).decode()


def rows_as(
    row_type: type[AnyRow], db: apsw.Connection, source: str, bindings: Bindings = ()
) -> list[AnyRow]:
    """The rows of ``source`` (``FROM …``) as structs, from the columns of their fields' names."""
    reads = _readers(row_type)
    sql = f"SELECT {', '.join(row_type.__struct_fields__)} {source}"
    return [
        row_type(
            *(
                value if read is None or value is None else read(value)
                for read, value in zip(reads, row, strict=True)
            )
        )
        for row in query(db, sql, bindings)
    ]


@lru_cache
def _readers(row_type: type[Struct]) -> list[Callable[[Any], Any] | None]:
    """By field: the function from a stored value; None for the value itself."""
    return [_reader(field.type) for field in msgspec.structs.fields(row_type)]


def _reader(type_: Any) -> Callable[[Any], Any] | None:
    described = inspect.type_info(type_)
    if isinstance(described, inspect.BoolType):
        return bool
    choices = described.types if isinstance(described, inspect.UnionType) else (described,)
    if all(isinstance(choice, _PLAIN) for choice in choices):
        return None
    return msgspec.json.Decoder(type_).decode
