"""The end of work that runs beside requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until each has ended. A failure of one is raised, a cancellation
    is not; None stands for a task that never began."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    for task in begun:
        with contextlib.suppress(asyncio.CancelledError):
            await task
