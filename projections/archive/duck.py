"""The process's one DuckDB database, which is empty: statements name the files that they read."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def cursor() -> duckdb.DuckDBPyConnection:
    """A connection for the caller to close; its registrations are private. Opening a database takes
    about twenty times as long as most statements."""
    return _database().cursor()


def literal(text: str) -> str:
    """A text as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    # Loaded on first use: most processes never need it.
    import duckdb

    # No caching of files: they may be erased.
    return duckdb.connect(config={"threads": 2, "enable_external_file_cache": False})
