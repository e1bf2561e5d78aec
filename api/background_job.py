"""Long work that a running node does in the background: at most one of a kind at a time, with
progress to look at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any
from uuid import uuid4

import msgspec

from api.errors import coded
from eventlog.errors import EventLogError
from projections.moment import format_instant

_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with (done, in all)."""


class BackgroundJob:
    """``start`` begins the work in a thread, ``status`` tells how far it is.

    Args:
        title: of the work, for the log and for refusals (``rebuild``).
        unit: what progress counts (``events``); names the fields of ``status``.
        now_us: the node's clock.
    """

    def __init__(self, title: str, unit: str, now_us: Callable[[], int]) -> None:
        self._title = title
        self._unit = unit
        self._now_us = now_us
        self._task: asyncio.Task[None] | None = None
        self._progress = (0, 0)
        self._began_s = 0.0
        self._ended_s: float | None = None
        self._state = "idle"
        self._job_id: str | None = None
        self._started_at: str | None = None
        self._finished_at: str | None = None
        self._result: Any = None
        self._error: str | None = None

    def start(self, work: Callable[[Progress], object]) -> None:
        """Begin. Raises ApiError 409 ``{title}_running`` while such work runs."""
        if self._task is not None and not self._task.done():
            raise coded(f"{self._title}_running", f"a {self._title} is running")
        self._state, self._progress = "running", (0, 0)
        self._began_s, self._ended_s = monotonic(), None
        self._result = self._error = self._finished_at = None
        self._started_at, self._job_id = self._now(), str(uuid4())
        self._task = asyncio.create_task(self._run(work), name=self._title)

    async def stop(self) -> None:
        """Wait for running work: it cannot be left half done."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def status(self) -> dict[str, Any]:
        """Id, state, progress, times, and the report of the run: the last, or the present one.

        ``{unit}_per_s``: the rate so far; ``left_s``: seconds it will take at that rate, null
        where that is not known.
        """
        done, total = self._progress
        seconds = (self._ended_s or monotonic()) - self._began_s
        rate = done / seconds if done and seconds > 0 else None
        left = (total - done) / rate if rate and self._state == "running" else None
        return {
            "job_id": self._job_id,
            "status": self._state,
            self._unit: done,
            f"{self._unit}_total": total,
            f"{self._unit}_per_s": None if rate is None else round(rate, 1),
            "left_s": None if left is None else round(left, 1),
            "started_at": self._started_at,
            "finished_at": self._finished_at,
            "result": self._result,
            "error": self._error,
        }

    async def _run(self, work: Callable[[Progress], object]) -> None:
        try:
            report = await asyncio.to_thread(work, self._count)
            self._result = msgspec.to_builtins(report)
            self._state = "done"
        except EventLogError as fault:  # says all there is to say
            _log.warning("%s failed: %s", self._title, fault)
            self._error = str(fault)
            self._state = "error"
        except Exception as fault:
            _log.exception("%s failed", self._title)
            self._error = str(fault)
            self._state = "error"
        self._ended_s = monotonic()
        self._finished_at = self._now()

    def _count(self, done: int, total: int) -> None:
        self._progress = (done, total)

    def _now(self) -> str:
        return format_instant(self._now_us())
