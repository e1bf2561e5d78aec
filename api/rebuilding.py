"""The rebuild a running node does in the background: at most one, with progress to look at."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import msgspec

from api.errors import coded
from api.node import Node
from projections.moment import format_instant

_log = logging.getLogger(__name__)


class RebuildJob:
    """``start`` begins a rebuild, ``status`` tells how far it is."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._state = "idle"
        self._events = 0
        self._events_total = 0
        self._started_at: str | None = None
        self._finished_at: str | None = None
        self._result: Any = None
        self._error: str | None = None

    def start(self) -> None:
        """Begin. Raises ApiError 409 ``rebuild_running`` while one runs."""
        if self._task is not None and not self._task.done():
            raise coded("rebuild_running", "a rebuild is running")
        self._state, self._events, self._events_total = "running", 0, 0
        self._result = self._error = self._finished_at = None
        self._started_at = self._now()
        self._task = asyncio.create_task(self._run(), name="rebuild")

    async def stop(self) -> None:
        """Wait for a running rebuild: it cannot be left half swapped."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def status(self) -> dict[str, Any]:
        """State, events replayed so far, times, and the report of the last run."""
        return {
            "status": self._state,
            "events": self._events,
            "events_total": self._events_total,
            "started_at": self._started_at,
            "finished_at": self._finished_at,
            "result": self._result,
            "error": self._error,
        }

    async def _run(self) -> None:
        try:
            report = await asyncio.to_thread(self._node.rebuild, self._count)
            self._result = msgspec.to_builtins(report)
            self._state = "done"
        except Exception as fault:
            _log.exception("rebuild failed")
            self._error = str(fault)
            self._state = "error"
        self._finished_at = self._now()

    def _count(self, done: int, total: int) -> None:
        with self._lock:
            self._events, self._events_total = done, total

    def _now(self) -> str:
        return format_instant(self._node.clock.now_us())
