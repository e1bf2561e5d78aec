"""Read-only SQL over the archive, in DuckDB, unable to reach anything else.

The statement runs in a process and a database of its own that hold views of what its caller
may read. It has no files but the two made for it, no network, no extensions, no settings to
change, and bounded memory, time and rows; a process that does not end is killed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from eventlog.event import NODE_STREAM, garden_partition, scope_partition
from projections.archive.segments import literal
from projections.arrays import F64, I64
from projections.audit.views import EVENT_COLUMNS

STARTING_SECONDS = 5.0
"""What the process may take to start and to end, beyond the statement's own time."""


class Limits(Struct, frozen=True, kw_only=True):
    """What a statement may use."""

    seconds: float = 10.0
    rows: int = 10_000
    memory_mib: int = 512
    result_bytes: int = 32 * 1024 * 1024


class StatementRefused(ValueError):
    """A statement that is not one read-only query, is wrong, or uses too much. ``code`` is
    ``sql_refused``, ``sql_invalid``, ``sql_timeout`` or ``sql_too_large``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Standing(Struct, frozen=True):
    """What the moment makes of each fact the caller may read, by the position of its event.
    ``ended`` is the position of its end, 0 where it has none."""

    position: I64
    ended: I64
    confidence: F64


class Rights(Struct, frozen=True, kw_only=True):
    """Which streams a caller may read: of scopes, of gardens, and the node's own, which speaks
    of facts everywhere."""

    scopes: tuple[str, ...]
    gardens: tuple[str, ...] = ()
    node: bool = False
    hidden: tuple[int, ...] = ()
    """Where facts were asserted that are classified too high: no event may speak of them."""

    @property
    def partitions(self) -> list[str]:
        """The partitions of those streams."""
        own = [NODE_STREAM] if self.node else []
        gardens = [garden_partition(garden) for garden in self.gardens]
        return [*map(scope_partition, self.scopes), *gardens, *own]


class Statement(Struct, frozen=True):
    """What the process is told: paths of the two files, the statement, the limits."""

    events: str
    standing: str
    sql: str
    limits: Limits


class Table(Struct, frozen=True, tag=True):
    """An answer: column names, DuckDB's type names, rows; ``truncated`` at the row limit."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    truncated: bool = False


def check_statement(sql: str) -> None:
    """Raises StatementRefused unless ``sql`` is one SELECT or EXPLAIN of one."""
    import duckdb

    allowed = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as fault:
        raise StatementRefused("sql_invalid", _message(fault)) from fault
    if len(statements) != 1:
        raise StatementRefused("sql_refused", f"one statement at a time, not {len(statements)}")
    if statements[0].type not in allowed:
        kind = str(statements[0].type).rpartition(".")[2]
        raise StatementRefused("sql_refused", f"only SELECT is allowed, not {kind}")


class Failure(Struct, frozen=True, tag=True):
    """Why the process has no answer."""

    code: str
    message: str


_UNHIDDEN = """
AND NOT (len(fact_ids) > 0 AND list_has_all((SELECT list(fact_ids[1]) FROM {files}
    WHERE kind = 'fact_asserted' AND position IN (SELECT position FROM hidden)), fact_ids))
"""
"""Leaves out the events that speak of hidden facts alone."""


def extract_events(
    target: Path, sources: Sequence[Path], position: int, rights: Rights, hidden: I64
) -> None:
    """Write the events up to ``position`` that a caller with these rights may read, without
    the exact bytes, without what identifies keys, and without events that speak of the facts
    asserted at ``hidden`` alone."""
    import duckdb

    files = f"read_parquet([{', '.join(literal(str(path)) for path in sources)}])"
    with duckdb.connect() as db:
        db.execute("SET threads=2")
        db.execute("CREATE TABLE classified (fact_id VARCHAR)")
        if rights.hidden:
            db.register("classified_positions", {"position": np.array(rights.hidden)})
            db.execute(
                f"INSERT INTO classified SELECT fact_ids[1] FROM {files}"
                " WHERE position IN (SELECT position FROM classified_positions)"
            )
        db.register("hidden", {"position": hidden})
        db.execute(
            f"COPY (SELECT {', '.join(EVENT_COLUMNS)} FROM {files}"
            f" WHERE position <= {position} AND regexp_extract(stream, '/[0-9]+/(.*)$', 1)"
            f" IN ({', '.join(literal(each) for each in rights.partitions) or 'NULL'})"
            " AND NOT list_has_any(coalesce(fact_ids, []),"
            " (SELECT coalesce(list(fact_id), []) FROM classified))"
            f"{_UNHIDDEN.format(files=files) if len(hidden) else ''}"
            f" ORDER BY position) TO {literal(str(target))} (FORMAT parquet)"
        )


def extract_standing(target: Path, standing: Standing) -> None:
    """Write what the moment makes of the facts."""
    import duckdb

    arrays = {
        "position": standing.position,
        "ended": standing.ended,
        "confidence": standing.confidence,
    }
    with duckdb.connect() as db:
        db.register("standing_arrays", arrays)
        db.execute(
            "COPY (SELECT * FROM standing_arrays ORDER BY position)"
            f" TO {literal(str(target))} (FORMAT parquet)"
        )


def run_sql(events: Path, standing: Path, sql: str, limits: Limits) -> Table:
    """Run one statement over what ``extract_events`` and ``extract_standing`` wrote.

    Raises:
        StatementRefused: see there.
    """
    check_statement(sql)
    statement = Statement(str(events), str(standing), sql, limits)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "projections.audit.statement"],
            input=msgspec.json.encode(statement),
            capture_output=True,
            timeout=limits.seconds + STARTING_SECONDS,
            check=False,
            cwd=Path(__file__).parents[2],
            env={"PATH": "", "LANG": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired as fault:
        raise _timed_out(limits) from fault
    try:
        answer = msgspec.json.decode(done.stdout, type=Table | Failure)
    except msgspec.MsgspecError as fault:
        # Killed by its limits: nothing else leaves the process without an answer.
        message = f"the statement needs more than {limits.memory_mib} MiB, or could not be run"
        raise StatementRefused("sql_too_large", message) from fault
    if isinstance(answer, Failure):
        raise StatementRefused(answer.code, answer.message)
    return answer


def _timed_out(limits: Limits) -> StatementRefused:
    return StatementRefused("sql_timeout", f"the statement took longer than {limits.seconds:g} s")


def _message(fault: Exception) -> str:
    """The first line of an error: the rest quotes the statement."""
    return str(fault).strip().split("\n")[0]
