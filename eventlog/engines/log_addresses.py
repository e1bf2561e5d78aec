"""The engine for an address. Loads PostgreSQL's driver only on demand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.errors import DataDirectoryError
from engramlog.eventlog.held_scopes import EVERY_SCOPE

if TYPE_CHECKING:
    from engramlog.eventlog.engines.postgres.log import PostgresLog

SCHEMES = ("postgresql://", "postgres://")


def is_log_url(address: str) -> bool:
    """Whether an address is a log on a server, not a directory."""
    return address.startswith(SCHEMES)


def shown_url(url: str) -> str:
    """The address without its password, for display and storage."""
    parts = urlsplit(url)
    password = parts.password
    netloc = parts.netloc if password is None else parts.netloc.replace(f":{password}@", "@", 1)
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] != "password"]
    return urlunsplit((parts.scheme, netloc, parts.path, urlencode(kept), ""))


def require_driver() -> None:
    """Raises DataDirectoryError if PostgreSQL's driver is not installed."""
    try:
        import_module("psycopg")
    except ImportError as fault:
        raise DataDirectoryError(
            f"a log in PostgreSQL needs its driver: pip install 'engramlog[postgres]' ({fault})"
        ) from fault


def open_shared_log(
    url: str,
    *,
    origin: str,
    epoch: int,
    clock: Clock,
    durability: Literal["quorum", "server"],
    held: frozenset[str] = EVERY_SCOPE,
    copying: bool = False,
) -> PostgresLog:
    """The log in the database at ``url``. Raises as ``PostgresLog.open``."""
    require_driver()
    from engramlog.eventlog.engines.postgres.log import PostgresLog

    return PostgresLog.open(
        url,
        origin=origin,
        epoch=epoch,
        clock=clock,
        durability=durability,
        held=held,
        copying=copying,
    )
