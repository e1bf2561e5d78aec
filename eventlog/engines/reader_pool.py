"""Read-only connections, the same for every engine and for the node's other files."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

IDLE_READERS_MAX = 8


class _Closes(Protocol):
    def close(self) -> None: ...


AnyConnection = TypeVar("AnyConnection", bound=_Closes)


class ReaderPool(Generic[AnyConnection]):
    """Read-only connections, one per concurrent reader. ``opened`` makes another one."""

    def __init__(self, opened: Callable[[], AnyConnection]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._idle: list[AnyConnection] = []
        self._reopened = 0
        self._closed = False

    @contextmanager
    def connection(self) -> Generator[AnyConnection]:
        """A connection for a ``with`` block; dropped after an error."""
        with self._lock:
            reopened = self._reopened
            db = self._idle.pop() if self._idle else None
        if db is None:
            db = self._opened()
        try:
            yield db
        except BaseException:
            db.close()
            raise
        with self._lock:
            current = reopened == self._reopened and not self._closed
            keep = current and len(self._idle) < IDLE_READERS_MAX
            if keep:
                self._idle.append(db)
        if not keep:
            db.close()

    def reopen(self) -> None:
        """Close idle connections now, and lent ones on return: they may lead to another server than
        before, or to a file that was replaced."""
        with self._lock:
            self._reopened += 1
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def close(self) -> None:
        """Close idle connections now, and lent ones on return."""
        self._closed = True
        self.reopen()
