"""The process that runs one audit statement: reads it on stdin, answers on stdout, and ends.

The operating system limits it as well: address space, processor time, and no writes to any file.
"""

import base64
import math
import os
import resource
import sys
import threading
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any

import duckdb
import msgspec

from engramlog.projections.archive.duck import connected, literal
from engramlog.projections.audit.statement_task import Failure, SandboxTask, StatementLimits, Table
from engramlog.projections.audit.views import VIEWS

PROCESS_MIB = 1024
"""Address space for the interpreter and DuckDB itself, beyond the statement's memory."""
PAGE_ROWS = 256
_MIB = 1024 * 1024


def main() -> None:
    """Answer one statement."""
    statement = msgspec.json.decode(sys.stdin.buffer.read(), type=SandboxTask)
    confine(statement.limits)
    sys.stdout.buffer.write(msgspec.json.encode(answer(statement)))
    sys.stdout.buffer.flush()
    # DuckDB's threads and the timer's are still running: a normal interpreter shutdown sometimes
    # aborts under them, and loses the answer.
    os._exit(0)


def confine(limits: StatementLimits) -> None:
    """Drop everything that a statement must not have."""
    space = (limits.memory_mib + PROCESS_MIB) * _MIB
    seconds = math.ceil(limits.seconds * 2) + 5
    with suppress(OSError, ValueError):  # macOS refuses it; DuckDB has its own limit below
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(statement: SandboxTask) -> Table | Failure:
    """The table, or the reason for its absence."""
    limits = statement.limits
    db = connected({"python_enable_replacements": False})
    timer = threading.Timer(limits.seconds, db.interrupt)
    timer.daemon = True
    try:
        _prepare_database(db, statement)
        timer.start()
        return _table(db, statement.sql, limits)
    except duckdb.InterruptException:
        return Failure("sql_timeout", f"the statement took longer than {limits.seconds:g} s")
    except (duckdb.OutOfMemoryException, MemoryError):
        return Failure("sql_too_large", f"the statement needs more than {limits.memory_mib} MiB")
    except duckdb.Error as fault:
        return Failure("sql_invalid", str(fault).strip().split("\n")[0])
    except OverflowError as fault:  # an interval of more days than Python counts
        return Failure("sql_invalid", f"a value of the answer cannot be shown: {fault}")
    finally:
        timer.cancel()


def _prepare_database(db: duckdb.DuckDBPyConnection, statement: SandboxTask) -> None:
    """Create tables and views, then lock the database before the statement runs."""
    events, standing = literal(statement.events), literal(statement.standing)
    db.execute(f"CREATE TABLE standing AS SELECT * FROM read_parquet({standing})")
    for view in VIEWS:
        db.execute(view.format(events=f"read_parquet({events})"))
    db.execute(f"SET memory_limit='{statement.limits.memory_mib}MiB'")
    db.execute("SET threads=2; SET temp_directory=''; SET TimeZone='UTC'")
    db.execute("SET autoinstall_known_extensions=false; SET autoload_known_extensions=false")
    db.execute(f"SET allowed_paths=[{events}]")
    db.execute("SET enable_external_access=false; SET lock_configuration=true")


def _table(db: duckdb.DuckDBPyConnection, sql: str, limits: StatementLimits) -> Table | Failure:
    """The result of a statement as JSON values, within the limits."""
    found = db.execute(sql)
    described = found.description or []
    rows: list[list[Any]] = []
    size = 0
    while len(rows) <= limits.rows:
        page = found.fetchmany(min(PAGE_ROWS, limits.rows + 1 - len(rows)))
        if not page:
            break
        plain = [[_json_value(cell) for cell in row] for row in page]
        size += len(msgspec.json.encode(plain))
        if size > limits.result_bytes:
            message = f"the answer is larger than {limits.result_bytes} bytes"
            return Failure("sql_too_large", message)
        rows += plain
    return Table(
        [str(column[0]) for column in described],
        [str(column[1]) for column in described],
        rows[: limits.rows],
        truncated=len(rows) > limits.rows,
    )


def _json_value(cell: Any) -> Any:
    """A value in JSON: other types become text, and infinite numbers are excluded."""
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if isinstance(cell, datetime | date | time):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if isinstance(cell, list | tuple):
        return [_json_value(each) for each in cell]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(cell, dict):
        return {str(key): _json_value(each) for key, each in cell.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(cell)


if __name__ == "__main__":
    main()
