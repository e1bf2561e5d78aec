"""Addresses of logs on a server, and the driver that these need."""

from importlib import import_module
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from engramlog.eventlog.errors import DataDirectoryError

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
