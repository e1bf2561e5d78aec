"""The rows of each projection that an event changed, as far as its reader may know of them."""

import re
from collections.abc import Callable, Collection
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded, UnknownPayload
from engramlog.eventlog.identifiers import id_text
from engramlog.projections.audit.effect_lookups import ERASED_WORDS, LOOKUPS, MARKS, WORDS, Lookup
from engramlog.projections.audit.journal import JournalEntry
from engramlog.projections.tables.database import json_list, query, query_column
from engramlog.projections.tables.erasing import Refolding
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.registry import PROJECTORS

ROWS_SHOWN_MAX = 20
"""Rows of one projection that are listed; all are counted."""

_NAMED = re.compile(r":(\w+)")


class ChangedRow(Struct, frozen=True):
    """A row that an event changed. ``change``: what it did to it; ``key`` names the row,
    ``fact_ids`` the facts that it is about."""

    table: str
    change: str
    key: dict[str, str | int | float | None]
    fact_ids: list[str]


class Effect(Struct, frozen=True):
    """What an event changed in one projection, in today's tables. ``changed`` counts the rows
    that the caller may know of, ``rows`` are the first of them; ``words`` say what no row
    tells."""

    changed: int
    rows: list[ChangedRow]
    words: str | None


def named_in(sql: str) -> list[str]:
    """The names of a statement's bindings."""
    return _NAMED.findall(sql)


def readers(event: Recorded) -> list[Projector]:
    """The projections that read an event, or lose rows by it."""
    erases = event.kind == "fact_erased" and event.peer is None
    return [
        each
        for each in PROJECTORS
        if event.kind in each.kinds or (erases and (each.erasing or isinstance(each, Refolding)))
    ]


def lookups_of(projector: Projector, kind: str) -> list[Lookup]:
    """The lookups of a projection's tables, or of its view (``facts``), for events of a kind."""
    own = (*projector.tables, projector.name)
    return [each for each in LOOKUPS if each.table in own and each.reads(kind)]


def effects(
    db: apsw.Connection, entry: JournalEntry, readable: Callable[[str], bool]
) -> dict[str, Effect]:
    """What an event changed, by projection. ``entry``: the event as the caller may know it.
    ``readable``: whether the caller may read a fact."""
    event = entry.event
    named = _bindings(event, entry.fact_ids)
    changes: dict[str, Effect] = {}
    for projector in readers(event):
        rows = [
            row
            for lookup in lookups_of(projector, event.kind)
            for row in _rows(db, lookup, named, entry, readable)
        ]
        words = WORDS.get(projector.name, {}).get(event.kind)
        if words is None and event.kind not in projector.kinds:
            words = ERASED_WORDS
        changes[projector.name] = Effect(len(rows), rows[:ROWS_SHOWN_MAX], words)
    return changes


def _bindings(
    event: Recorded, fact_ids: Collection[str]
) -> dict[str, str | int | float | bytes | None]:
    payload = event.payload
    named: dict[str, str | int | float | bytes | None] = {}
    if payload is not None and not isinstance(payload, UnknownPayload):
        body: dict[str, Any] = msgspec.to_builtins(payload)
        named = {name: each for name, each in body.items() if isinstance(each, str | int | float)}
    named.update(
        position=event.position,
        event_id=id_text(event.event_id),
        event_bytes=event.event_id,
        origin=event.header.origin,
        facts=json_list(sorted(fact_ids)),
    )
    return named


def _rows(
    db: apsw.Connection,
    lookup: Lookup,
    named: dict[str, Any],
    entry: JournalEntry,
    readable: Callable[[str], bool],
) -> list[ChangedRow]:
    """The rows of a lookup that the caller may know of. A row about no fact is for callers who
    were shown the event itself, not just facts that it touched."""
    existing = query_column(db, "SELECT name FROM pragma_table_info(?)", (lookup.table,))
    marks = [mark for mark in MARKS if mark in existing]
    key_names, fact_names = lookup.shown.split(), lookup.facts.split()
    columns = (*key_names, *fact_names, *marks)
    sql = f"SELECT {', '.join(columns)} FROM {lookup.table} WHERE {lookup.where}"
    asked = {name: named.get(name) for name in named_in(sql)}
    shown = frozenset(entry.fact_ids)
    told = lookup.of_facts or entry.detail is not None
    rows: list[ChangedRow] = []
    for row in query(db, sql, asked):
        cells = dict(zip(columns, row, strict=True))
        facts = [cells[name] for name in fact_names if cells[name]]
        if all(each in shown or readable(each) for each in facts) and (facts or told):
            change = next(
                (MARKS[mark] for mark in marks if cells[mark] == entry.event.position), "changed"
            )
            key = {name: cells[name] for name in key_names}
            rows.append(ChangedRow(lookup.table, change, key, list(dict.fromkeys(facts))))
    return rows
