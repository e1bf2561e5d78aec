"""The task that seals full segments of the log into the archive while the node serves."""

from __future__ import annotations

import asyncio
import logging

from api.background import end_tasks
from projections.archive.archive import Archive

SEAL_SECONDS = 30.0

_log = logging.getLogger(__name__)


class Sealer:
    """``start`` and ``stop`` belong to the app's life."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Future[int] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sealing")

    async def stop(self) -> None:
        """Stop after the segment that is being written."""
        await end_tasks(self._task)
        self._task = None
        if self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                # Shielded: a segment is written to its end even where the node stops meanwhile.
                self._work = asyncio.ensure_future(asyncio.to_thread(self._archive.seal))
                await asyncio.shield(self._work)
            except asyncio.CancelledError:
                raise
            except Exception:
                _log.exception("sealing the archive failed; it is tried again")
            await asyncio.sleep(SEAL_SECONDS)
