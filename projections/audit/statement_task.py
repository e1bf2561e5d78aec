"""The input and output of a statement's process. Imports as little as possible: every answer waits
for the process to start."""

from typing import Any

from msgspec import Struct


class StatementLimits(Struct, frozen=True, kw_only=True):
    """What a statement may use."""

    seconds: float = 10.0
    rows: int = 10_000
    memory_mib: int = 512
    result_bytes: int = 32 * 1024 * 1024


class SandboxTask(Struct, frozen=True):
    """What the process receives: paths of the two files, the statement, the limits."""

    events: str
    standing: str
    sql: str
    limits: StatementLimits


class Table(Struct, frozen=True, tag=True):
    """An answer: column names, DuckDB's type names, rows; ``truncated`` at the row limit."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    truncated: bool = False


class Failure(Struct, frozen=True, tag=True):
    """Why the process has no table."""

    code: str
    message: str
