"""One thread that writes cards in advance, so that readers find them ready.

The queue holds optional requests ("wishes"): a missing card is written on demand anyway, so a full
queue refuses wishes and a stop drops them.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

QUEUE_MAX = 10_000

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class CardQueue:
    """Runs work in one thread: urgent work first, then wishes in order. ``refused``: wishes refused
    since start because ``limit`` were waiting."""

    def __init__(self, limit: int = QUEUE_MAX) -> None:
        self.refused = 0
        self._limit = limit
        self._condition = threading.Condition()
        self._urgent: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._wishes: OrderedDict[Hashable, Callable[[], object]] = OrderedDict()
        self._running: Hashable = None
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many wishes wait."""
        return len(self._wishes)

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="cards", daemon=True)
        thread.start()
        self._thread = thread

    def wish(self, name: Hashable, work: Callable[[], object]) -> bool:
        """Do ``work`` some time; a waiting wish of the same name is not queued twice."""
        with self._condition:
            if self._closed:
                return False
            if name not in self._wishes and len(self._wishes) >= self._limit:
                self.refused += 1
                return False
            self._wishes[name] = work
            self._condition.notify()
            return True

    def run(self, work: Callable[[], Result], timeout_seconds: float) -> Result:
        """The result of ``work``, done before any wish. Raises TimeoutError: it took longer; it
        still finishes."""
        if self._thread is None:
            return work()
        future: Future[Result] = Future()
        with self._condition:
            if self._closed:
                raise TimeoutError("the queue is closed")
            self._urgent.append((future, work))
            self._condition.notify()
        try:
            return future.result(timeout_seconds)
        except CancelledError as fault:
            raise TimeoutError("the queue was closed") from fault

    def settle(self, timeout_seconds: float) -> bool:
        """Whether the queue is empty and idle; waits at most that long."""
        with self._condition:
            return self._condition.wait_for(
                lambda: not self._wishes and not self._urgent and self._running is None,
                timeout_seconds,
            )

    def close(self, timeout_seconds: float | None = None) -> None:
        """Finish the running work, drop the rest; wait at most that long. Idempotent."""
        with self._condition:
            self._closed = True
            urgent, self._urgent = self._urgent, []
            self._wishes.clear()
            self._condition.notify_all()
        for future, _ in urgent:
            future.cancel()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._running = None
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._closed or self._urgent or self._wishes)
                if self._closed:
                    return
                future: Future[Any] | None = None
                if self._urgent:
                    future, work = self._urgent.pop(0)
                else:
                    _, work = self._wishes.popitem(last=False)
                self._running = work
            self._do(work, future)

    def _do(self, work: Callable[[], Any], future: Future[Any] | None) -> None:
        try:
            result = work()
        except Exception as fault:
            if future is None:
                _log.warning("a card could not be written: %s", fault)
            else:
                future.set_exception(fault)
        else:
            if future is not None:
                future.set_result(result)
