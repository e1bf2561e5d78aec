"""A log that has only hashes."""

from types import SimpleNamespace
from typing import Any


class AnyLog:
    """Every position has an event, and every event the same hash."""

    hash = b"same"

    def read(self, after: int, _limit: int) -> list[Any]:
        return [SimpleNamespace(position=after + 1, hash=self.hash)]


def any_log() -> Any:
    """One of these, where a whole log is expected."""
    return AnyLog()
