"""Digests of the projections: independent of order, so equal rows give equal digests.

``local`` covers all rows of all projectors (a rebuild must equal it). ``shared`` covers the rows on
which peers with the same events must agree: no positions, access counts, trust or decay. Each is
the sum of SHA-256 over encoded rows, modulo 2^256.
"""

import hashlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query, query_column
from engramlog.projections.tables.registry import PROJECTORS

_MODULUS = 2**256
_encode = msgspec.msgpack.Encoder().encode

_WITH_STREAM = {
    "facts": (
        "fact_rows",
        """id, entity, relation, value_type, value_v, interpret_as, source, scope, garden_id,
        base_confidence, valid_from, valid_until, hlc, recorded_at, cid, derived_from, write_mode,
        origin, stream, stream_seq, attestation""",
    ),
    "episodes": (
        "episodes",
        """key, id, scope, garden_id, user, session, agent, at_us, content, source_node, metadata,
        run_id, step, actor, hlc, recorded_at, origin, stream, stream_seq""",
    ),
    "deltas": (
        "deltas",
        """delta_id, number, kind, scope, garden_id, user, agent, rule_id, run_id, promotion_us,
        confidence, sources, replaces, name, subject, fact_id, retracted, payload, provenance,
        lineage, actor, hlc, origin, stream, stream_seq""",
    ),
    "summaries": (
        "summaries",
        """name, tier, period_start, owner, scope, garden_id, removed, actor, hlc,
        origin, stream, stream_seq""",
    ),
}
"""Tables whose rows name their stream, with the columns that peers share."""
_SHARED = {
    **{name: f"SELECT {columns} FROM {table}" for name, (table, columns) in _WITH_STREAM.items()},
    "fact_retractions": "SELECT fact_id FROM fact_retractions WHERE cause = 'retraction'",
    "denials": "SELECT fact_id, marker_id FROM denials",
    "set_aside": f"SELECT id FROM fact_rows WHERE set_aside <> {LIVE}",
    "attributes": "SELECT fact_id, json_remove(attributes, '$.trust') FROM fact_attributes",
    "derivations": "SELECT DISTINCT child_hash, parent_hash FROM derivations",
}
_OF_STREAMS = {
    **{
        name: f"SELECT stream, {columns.replace('stream, ', '', 1)} FROM {table}"
        for name, (table, columns) in _WITH_STREAM.items()
    },
    "retracted": """
        SELECT facts.stream, facts.id FROM fact_retractions
        JOIN fact_rows AS facts ON facts.id = fact_id WHERE cause = 'retraction'""",
    "denied": """
        SELECT facts.stream, fact_id, marker_id FROM denials
        JOIN fact_rows AS facts ON facts.id = marker_id""",
    "set aside": f"SELECT stream, id FROM fact_rows WHERE set_aside <> {LIVE}",
}
"""Rows that must be equal on nodes with the same streams, with the stream of each row."""


def stream_digests(db: apsw.Connection) -> dict[str, str]:
    """A digest of each stream's content, by stream. Nodes that replayed the same streams with the
    same grants, in any order, get equal digests."""
    totals: dict[str, int] = {}
    for name, sql in _OF_STREAMS.items():
        prefix = name.encode()
        for row in db.execute(sql):
            stream = str(row[0])
            digest = hashlib.sha256(prefix + _encode(row)).digest()
            totals[stream] = totals.get(stream, 0) + int.from_bytes(digest, "big")
    return {stream: _hex(total) for stream, total in sorted(totals.items())}


class TableDigests(Struct, frozen=True):
    """Hex digests of all rows, whole and by table, at a position."""

    position: int
    local: str
    tables: dict[str, str]


class Digests(TableDigests, frozen=True):
    """The digests of all rows, and the digest of the rows that peers share."""

    shared: str


def digest_tables(db: apsw.Connection) -> TableDigests:
    """The digest of all rows, at one position: read in one transaction (the caller's, if open)."""
    with _one_snapshot(db):
        (position,) = query(db, "SELECT min(position) FROM checkpoints")[0]
        tables = {
            table: _sum(table, db.execute(f"SELECT * FROM {table}"))
            for projector in PROJECTORS
            for table in projector.tables
        }
    whole = _hex(sum(tables.values()))
    return TableDigests(position or 0, whole, {name: _hex(each) for name, each in tables.items()})


def compute_digests(db: apsw.Connection) -> Digests:
    """Both digests, read as ``digest_tables`` does."""
    with _one_snapshot(db):
        own = digest_tables(db)
        shared = [_sum(name, db.execute(sql)) for name, sql in _SHARED.items()]
    return Digests(own.position, own.local, own.tables, _hex(sum(shared)))


def differing_tables(db: apsw.Connection, other: Path) -> list[str]:
    """The tables whose rows are not exactly those of another file. SQLite compares them: two
    digests would take three times as long. The file stays attached to ``db``."""
    name = f"other{len(query(db, 'PRAGMA database_list'))}"
    db.execute(f"ATTACH ? AS {name}", (str(other),))
    tables = [table for projector in PROJECTORS for table in projector.tables]
    return sorted(table for table in tables if _differs(db, table, name))


def _differs(db: apsw.Connection, table: str, other: str) -> bool:
    columns = query_column(db, "SELECT name FROM pragma_table_info(?)", (table,))
    same = " AND ".join(f"own.{column} IS its.{column}" for column in columns)
    common = f"main.{table} AS own CROSS JOIN {other}.{table} AS its ON {same}"
    counts = [
        query(db, f"SELECT count(*) FROM {rows}")[0]
        for rows in (f"main.{table}", f"{other}.{table}", common)
    ]
    return len(set(counts)) > 1


@contextmanager
def _one_snapshot(db: apsw.Connection) -> Generator[None]:
    own = not db.in_transaction
    if own:
        db.execute("BEGIN")
    try:
        yield
    finally:
        if own:
            db.execute("COMMIT")


def _sum(table: str, rows: Iterable[tuple[Any, ...]]) -> int:
    name, sha256 = table.encode(), hashlib.sha256
    return sum(int.from_bytes(sha256(name + _encode(row)).digest()) for row in rows) % _MODULUS


def _hex(value: int) -> str:
    return f"{value % _MODULUS:064x}"
