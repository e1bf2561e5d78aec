"""Rows from events and as structs: a column holds the field of its name. Lists, dictionaries and
structs are JSON in the tables.

The tables that most events write to (facts, edges, episodes) write out their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import apsw
import msgspec
from msgspec import Struct, inspect

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import Payload
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import Bindings, query, query_column

AnyRow = TypeVar("AnyRow", bound=Struct)
_PLAIN = (
    inspect.StrType, inspect.IntType, inspect.FloatType, inspect.LiteralType, inspect.NoneType,
)  # fmt: skip


def insert_row(
    db: apsw.Connection,
    table: str,
    event: Recorded,
    *,
    part: Struct | None = None,
    or_ignore: bool = False,
    **values: object,
) -> None:
    """Insert the row of an event. A column takes its value from ``values``, else from the field of
    its name in ``part``, the payload, the header or the event, else it keeps its default.
    ``from_position`` is the event's. ``part``: the part of the payload that the row is about.
    ``or_ignore``: leave an existing row with the same key."""
    assert isinstance(event.payload, Payload)
    sources = (event.payload if part is None else part, event.payload, event.header, event)
    key = (table, or_ignore, *map(type, sources), *values)
    if key not in _insertions:
        _insertions[key] = _insertion(db, table, sources, values, or_ignore=or_ignore)
    sql, fields = _insertions[key]
    row = [values[name] if at is None else getattr(sources[at], name) for at, name in fields]
    db.execute(sql, [_stored(value) for value in row])


_Insertion: TypeAlias = "tuple[str, list[tuple[int | None, str]]]"
_insertions: dict[tuple[object, ...], _Insertion] = {}
"""Statements, with the source's number and the field for each value. A table's columns never change
while a process runs."""


def _insertion(
    db: apsw.Connection,
    table: str,
    sources: Sequence[Struct],
    values: Collection[str],
    *,
    or_ignore: bool,
) -> _Insertion:
    """The statement that inserts a row, and for each column its source (its number, None for
    ``values``) and field."""
    fields: dict[str, tuple[int | None, str]] = {}
    for column in query_column(db, "SELECT name FROM pragma_table_info(?)", (table,)):
        held = [n for n, each in enumerate(sources) if column in each.__struct_fields__]
        if column in values:
            fields[column] = (None, column)
        elif held:
            fields[column] = (held[0], column)
        elif column == "from_position":
            fields[column] = (len(sources) - 1, "position")
    assert fields.keys() >= set(values), f"{table} has no columns {set(values) - fields.keys()}"
    verb = "INSERT OR IGNORE" if or_ignore else "INSERT"
    places = ",".join("?" * len(fields))
    sql = f"{verb} INTO {table} ({','.join(fields)}) VALUES ({places})"
    return sql, list(fields.values())


def end_rows(db: apsw.Connection, table: str, event: Recorded, **key: apsw.SQLiteValue) -> None:
    """End the live rows with this key at the event. An index of the live rows finds them: a key's
    past may be long."""
    wanted = "".join(f" AND {column}=?" for column in key)
    sql = f"UPDATE {table} SET to_position=? WHERE to_position={LIVE}{wanted}"
    db.execute(sql, (event.position, *key.values()))


def _stored(value: Any) -> apsw.SQLiteValue:
    if value is None or isinstance(value, (str, int, float)):
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
