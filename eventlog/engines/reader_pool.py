"""Read-only connections to a log, the same for every engine."""

from collections import deque
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
        self._idle: deque[AnyConnection] = deque()
        self._closed = False

    @contextmanager
    def connection(self) -> Generator[AnyConnection]:
        """A connection for a ``with`` block; dropped after an error."""
        try:
            db = self._idle.pop()
        except IndexError:
            db = self._opened()
        try:
            yield db
        except BaseException:
            db.close()
            raise
        if self._closed or len(self._idle) >= IDLE_READERS_MAX:
            db.close()
        else:
            self._idle.append(db)

    def drop_idle(self) -> None:
        """Close idle connections: they may lead to another server than before."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close idle connections now, and lent ones on return."""
        self._closed = True
        self.drop_idle()
