"""Recall tracking: which facts recalls returned, written to the log in batches.

Counts gather in memory and go to the writer at most every ``FLUSH_SECONDS``, when
``PENDING_MAX`` facts wait, and at shutdown. A failed flush keeps its counts for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from eventlog.kinds import RecallUse
from projections.intents import TrackRecalls
from projections.writer import Writer

FLUSH_SECONDS = 30.0
PENDING_MAX = 20_000
ACTOR = "system:engramlog:recall"

_log = logging.getLogger(__name__)


class RecallTracker:
    """Gathers uses and flushes them; ``start`` and ``stop`` belong to the app's life."""

    def __init__(self, writer: Writer, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._writer = writer
        self._flush_seconds = flush_seconds
        self._uses: dict[str, tuple[int, int]] = {}
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Facts with uses that are not in the log yet."""
        return len(self._uses)

    def note(self, fact_ids: Iterable[str], at_us: int) -> None:
        """Count one use of each fact at ``at_us`` (microseconds)."""
        for fact_id in fact_ids:
            count, last = self._uses.get(fact_id, (0, 0))
            self._uses[fact_id] = (count + 1, max(last, at_us))
        if len(self._uses) >= PENDING_MAX:
            self._full.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="recall-tracking")

    async def stop(self) -> None:
        """Stop the loop and flush what waits."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self.flush()

    async def flush(self) -> None:
        """Write what has gathered as one event."""
        if not self._uses:
            return
        taken, self._uses = self._uses, {}
        self._full.clear()
        uses = tuple(RecallUse(fact, count, last) for fact, (count, last) in taken.items())
        try:
            await asyncio.wrap_future(self._writer.submit([TrackRecalls(uses=uses)], actor=ACTOR))
        except Exception as fault:
            _log.warning("recall tracking could not be written, kept for later: %s", fault)
            for fact, (count, last) in taken.items():
                have, at_us = self._uses.get(fact, (0, 0))
                self._uses[fact] = (have + count, max(at_us, last))

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._flush_seconds)
            await self.flush()
            self._full.clear()
