"""The process's one DuckDB database, which is empty: statements name the files that they read."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def cursor() -> duckdb.DuckDBPyConnection:
    """A connection of the caller's own, to be closed; what it registers is its own as well.
    Opening a database instead costs some twenty times as much as most statements take."""
    return _database().cursor()


def literal(text: str) -> str:
    """A string as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    # Loaded when first needed: most processes never need it.
    import duckdb

    # Nothing of a file is kept: it may be erased.
    return duckdb.connect(config={"threads": 2, "enable_external_file_cache": False})
