"""Turns errors of the archive's files into the log's: a full disk is no fault of the node."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from engramlog.eventlog.errors import StorageFailed, StorageFull

_log = logging.getLogger(__name__)


@contextmanager
def file_errors(of: str) -> Generator[None]:
    """Turn DuckDB's and the system's errors into the log's. Only the node's log names the files."""
    import duckdb

    try:
        yield
    except (OSError, duckdb.IOException) as fault:
        _log.warning("the files of %s cannot be written: %s", of, fault)
        if "No space left" in str(fault):
            raise StorageFull(f"no space left for the files of {of}") from fault
        raise StorageFailed(f"the files of {of} cannot be written") from fault
