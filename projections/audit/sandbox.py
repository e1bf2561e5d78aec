"""Read-only SQL over the archive, in DuckDB, isolated from everything else.

The statement runs in a separate process and database, with views of what its caller may read. It
has two files made for it, no other files, no network, no extensions, no settings, and bounded
memory, time and rows; a process that does not end is killed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from engramlog.eventlog.codec import is_later
from engramlog.eventlog.event import NODE_STREAM, garden_partition, scope_partition
from engramlog.projections.archive.duck import connected, cursor, literal
from engramlog.projections.archive.rows import without
from engramlog.projections.arrays import F64, I64
from engramlog.projections.audit.statement_task import Failure, SandboxTask, StatementLimits, Table
from engramlog.projections.audit.views import EVENT_COLUMNS

if TYPE_CHECKING:
    import duckdb

STARTING_SECONDS = 5.0
"""The process's time to start and end, beyond the statement's time."""


class StatementRefused(ValueError):
    """A statement that is not one read-only query, is wrong, or uses too much. ``code`` is
    ``sql_refused``, ``sql_invalid``, ``sql_timeout`` or ``sql_too_large``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class FactStates(Struct, frozen=True):
    """The state of each readable fact at the moment, by the position of its event. ``ended``: the
    position of its end, 0 if it has none."""

    position: I64
    ended: I64
    confidence: F64


class Rights(Struct, frozen=True, kw_only=True):
    """Which streams a caller may read: of scopes, of gardens, and the node's own, which names facts
    from everywhere."""

    scopes: tuple[str, ...]
    gardens: tuple[str, ...] = ()
    node: bool = False
    hidden: tuple[int, ...] = ()
    """Positions of facts that are classified too high: no event may reveal them."""
    memories: bool = True
    """Whether episodes and deltas are readable: for classifications they are internal."""
    chains: bool = False
    """Whether to tell the events' numbers in their streams: without gaps, they count others."""

    @property
    def partitions(self) -> list[str]:
        """The partitions of those streams."""
        own = [NODE_STREAM] if self.node else []
        gardens = [garden_partition(garden) for garden in self.gardens]
        return [*map(scope_partition, self.scopes), *gardens, *own]


_BEGINNING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
"""A statement's first word, after comments and parentheses."""
_SELECTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})


def check_statement(sql: str) -> None:
    """Raises StatementRefused unless ``sql`` is one SELECT."""
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as fault:
        # Its first line: the rest quotes the statement.
        raise StatementRefused("sql_invalid", str(fault).strip().split("\n")[0]) from fault
    if len(statements) != 1:
        raise StatementRefused("sql_refused", f"one statement at a time, not {len(statements)}")
    kind = str(statements[0].type).rpartition(".")[2]
    begun = _BEGINNING.match(statements[0].query)
    word = "" if begun is None else begun[1].upper()
    if kind == "SELECT" and word not in _SELECTS:
        kind = word  # DuckDB counts SHOW, DESCRIBE and SUMMARIZE among them
    if kind != "SELECT":
        raise StatementRefused("sql_refused", f"only SELECT is allowed, not {kind}")


_GONE = """
CREATE TABLE gone AS SELECT fact_ids[1] AS fact_id FROM {files}
WHERE kind = 'fact_asserted' AND position IN (SELECT position FROM gone_positions)
"""
_IN_PART = """
SELECT position, kind, schema_version, fact_ids, detail FROM readable
WHERE list_has_any(coalesce(fact_ids, []), (SELECT coalesce(list(fact_id), []) FROM gone))
   OR (kind = 'delta_applied' AND EXISTS (SELECT 1 FROM gone))
"""
_CAUSES = """
CREATE TABLE causes AS SELECT event_id FROM readable
WHERE event_id IN (SELECT causation_id FROM readable WHERE causation_id IS NOT NULL)
  AND position NOT IN (SELECT position FROM unseen)
"""
_TOLD = """
SELECT {columns} FROM readable LEFT JOIN parts USING (position)
WHERE position NOT IN (SELECT position FROM unseen)
"""
_OF_MEMORY = ("episode_recorded", "delta_rejected")
_MEMORIES = (*_OF_MEMORY, "delta_applied", "episode_accessed")
_STREAMED = "SET threads=1; SET preserve_insertion_order=false"
"""One thread reads the files in order and writes what it has read. To sort the events, or to keep
two threads' events in order, takes several times their bytes in memory."""
_GROUP_BYTES = 16 * 1024 * 1024


def extract_events(
    target: Path,
    sources: Sequence[Path],
    position: int,
    rights: Rights,
    hidden: I64,
    sees: Callable[[str, dict[str, Any]], bool],
) -> None:
    """Write the events up to ``position`` that a caller with these rights may read, without the
    exact bytes, and without fields that identify keys. ``hidden``: positions of facts hidden from
    the caller besides those of ``rights``: events about them alone are left out, and others do not
    name them. ``sees``: whether the caller sees the content of a memory's event (kind, payload)."""
    files = f"read_parquet([{', '.join(literal(str(path)) for path in sources)}])"
    with connected({}) as db:
        db.execute(_STREAMED)
        gone_positions = np.union1d(hidden, np.array(rights.hidden, dtype=np.int64))
        db.register("gone_positions", {"position": gone_positions})
        db.execute(_GONE.format(files=files))
        db.execute(
            f"CREATE VIEW readable AS SELECT * FROM {files}"
            f" WHERE position <= {position} AND regexp_extract(stream, '/[0-9]+/(.*)$', 1)"
            f" IN ({_literals(rights.partitions) or 'NULL'})"
            + ("" if rights.memories else f" AND kind NOT IN ({_literals(_MEMORIES)})")
        )
        unseen, parts = _erased_and_partial(db)
        partial = db.execute(
            "SELECT position, kind, schema_version, detail FROM readable"
            f" WHERE kind IN ({_literals(_OF_MEMORY)}) AND detail IS NOT NULL"
        ).fetchall()
        unseen += [
            at
            for at, kind, version, said in partial
            if is_later(kind, version) or not sees(kind, msgspec.json.decode(said))
        ]
        db.register("unseen", {"position": np.array(unseen, dtype=np.int64)})
        db.execute(_CAUSES)
        db.execute("CREATE TABLE parts (position BIGINT, kept VARCHAR[], said VARCHAR)")
        if parts:
            db.executemany("INSERT INTO parts VALUES (?, ?, ?)", parts)
        columns = ", ".join(_redacted_column(column, rights.chains) for column in EVENT_COLUMNS)
        db.execute(
            f"COPY ({_TOLD.format(columns=columns)}) TO {literal(str(target))}"
            f" (FORMAT parquet, ROW_GROUP_SIZE_BYTES {_GROUP_BYTES})"
        )


def _literals(texts: Iterable[str]) -> str:
    return ", ".join(map(literal, texts))


def _redacted_column(column: str, chains: bool) -> str:
    """A column of the events, redacted in partly visible events. Causes that the caller may not
    read are not named."""
    if column == "stream_seq" and not chains:
        return "CAST(NULL AS BIGINT) AS stream_seq"
    if column == "fact_ids":
        return "coalesce(parts.kept, fact_ids) AS fact_ids"
    if column == "causation_id":
        return "CASE WHEN causation_id IN (FROM causes) THEN causation_id END AS causation_id"
    return column.replace("ELSE detail END", "ELSE coalesce(parts.said, detail) END")


def _is_empty_redacted(whole: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether a redacted payload says nothing: no deltas, or half a settlement or denial, which
    only readers of both sides may see."""
    if "deltas" in whole:
        return not said["deltas"]
    if "loser_ids" in whole:
        return any(whole[side] and not said[side] for side in ("winner_id", "loser_ids"))
    if whole["kind"] == "fact_denied":
        return not (said["marker_id"] and said["fact_ids"])
    return False


def _erased_and_partial(
    db: duckdb.DuckDBPyConnection,
) -> tuple[list[int], list[tuple[int, list[str], str | None]]]:
    """Positions of events that name only erased facts, and of a later release's that name any; and
    of events that also name others, with those others and the redacted payload."""
    unseen: list[int] = []
    parts: list[tuple[int, list[str], str | None]] = []
    gone = frozenset(str(fact) for (fact,) in db.execute("SELECT fact_id FROM gone").fetchall())
    for at, kind, version, names, detail in db.execute(_IN_PART).fetchall() if gone else ():
        if is_later(kind, version):
            unseen.append(at)
            continue
        whole: dict[str, Any] | None = None if detail is None else msgspec.json.decode(detail)
        said = None if whole is None else without(whole, gone)
        kept = [name for name in names or () if name not in gone]
        if (names and not kept) or (
            whole is not None and said is not None and _is_empty_redacted(whole, said)
        ):
            unseen.append(at)
        else:
            text = None if said is None else msgspec.json.encode(said).decode()
            parts.append((at, kept, text))
    return unseen, parts


def extract_standing(target: Path, standing: FactStates) -> None:
    """Write the state of the facts at the moment."""
    with cursor() as db:
        db.register("standing_arrays", asdict(standing))
        db.execute(
            "COPY (SELECT * FROM standing_arrays ORDER BY position)"
            f" TO {literal(str(target))} (FORMAT parquet)"
        )


def run_sql(
    events: Path,
    standing: Path,
    sql: str,
    limits: StatementLimits,
    started: Callable[[subprocess.Popen[bytes]], None],
) -> Table:
    """Run a statement that ``check_statement`` let pass, over the files of ``extract_events`` and
    ``extract_standing``. ``started``: called with the process, which may be killed. Raises
    StatementRefused: see there."""
    statement = SandboxTask(str(events), str(standing), sql, limits)
    with subprocess.Popen(
        [sys.executable, "-m", "engramlog.projections.audit.statement"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
        env={"PATH": "", "LANG": "C.UTF-8"},
    ) as process:
        started(process)
        try:
            said, _ = process.communicate(
                msgspec.json.encode(statement), limits.seconds + STARTING_SECONDS
            )
        except subprocess.TimeoutExpired as fault:
            message = f"the statement took longer than {limits.seconds:g} s"
            raise StatementRefused("sql_timeout", message) from fault
        finally:
            process.kill()
    try:
        answer = msgspec.json.decode(said, type=Table | Failure)
    except msgspec.MsgspecError as fault:
        # Its limits killed it: only that ends the process without an answer.
        message = f"the statement needs more than {limits.memory_mib} MiB, or could not be run"
        raise StatementRefused("sql_too_large", message) from fault
    if isinstance(answer, Failure):
        raise StatementRefused(answer.code, answer.message)
    return answer
