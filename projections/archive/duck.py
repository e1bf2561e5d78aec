"""DuckDB databases, which are empty: statements name the files that they read."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from engramlog.eventlog.errors import StorageFailed, StorageFull

if TYPE_CHECKING:
    import duckdb


@contextmanager
def cursor() -> Generator[duckdb.DuckDBPyConnection]:
    """A connection to the process's one database; its registrations are private. Opening a database
    takes about twenty times as long as most statements. Raises as ``memory_errors``."""
    with memory_errors(), _shared().cursor() as db:
        yield db


def database() -> duckdb.DuckDBPyConnection:
    """A database for one large piece of work, for the caller to close. Only closing returns its
    memory: 300 MiB after a segment of the archive."""
    # No caching of files: they may be erased.
    return connected({"threads": 2, "enable_external_file_cache": False})


def connected(config: dict[str, str | bool | int | float | list[str]]) -> duckdb.DuckDBPyConnection:
    """A new database. It shows no progress: DuckDB prints its bar to standard output, whether a
    terminal or not, where commands and MCP write their answers."""
    # Loaded on first use: most processes never need it.
    import duckdb

    db = duckdb.connect(config=config)
    db.execute("SET enable_progress_bar=false")
    return db


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@cache
def _shared() -> duckdb.DuckDBPyConnection:
    return database()


_log = logging.getLogger(__name__)


@contextmanager
def memory_errors() -> Generator[None]:
    """Turn DuckDB's lack of memory into Python's: MemoryError."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as fault:
        raise MemoryError(str(fault).split("\n", 1)[0]) from fault


@contextmanager
def file_errors(owner: str) -> Generator[None]:
    """Turn DuckDB's and the system's errors into the log's, and as ``memory_errors``. Only the
    node's log names the files."""
    import duckdb

    try:
        with memory_errors():
            yield
    except (OSError, duckdb.IOException) as fault:
        _log.warning("the files of %s cannot be written: %s", owner, fault)
        if "No space left" in str(fault):
            raise StorageFull(f"no space left for the files of {owner}") from fault
        raise StorageFailed(f"the files of {owner} cannot be written") from fault
