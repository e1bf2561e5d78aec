"""Answers that come later: a request over much becomes a job, whose result is fetched by id.

A job is its starter's alone: only the same credential finds it, everybody else is told that
there is none. Results are kept for ten minutes, in memory; a restart forgets them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Literal, cast
from uuid import uuid4

from msgspec import Struct

from api.errors import ApiError, coded

KEPT_S = 600.0
RUNNING_MAX = 2
"""Jobs that work at a time, so that reads keep threads; others are pending."""
JOBS_MAX = 1000
FACTS_PER_S = 200_000
"""A cautious rate, for ``estimated_s``."""

_log = logging.getLogger(__name__)

State = Literal["pending", "running", "done", "error"]


class Job(Struct):
    """One job. ``owner``: digest of the credential that may ask for it."""

    job_id: str
    kind: str
    owner: bytes
    status: State = "pending"
    result: Any = None
    error: str | None = None
    finished_s: float | None = None

    def wire(self) -> dict[str, Any]:
        """The job in the protocol's shape: ``result`` once done, ``error`` once failed."""
        told: dict[str, Any] = {"job_id": self.job_id, "status": self.status}
        if self.status == "done":
            told["result"] = self.result
        if self.status == "error":
            told["error"] = self.error
        return told


class Jobs:
    """Jobs of a running node. For use within one event loop."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(RUNNING_MAX)

    def start(self, kind: str, owner: bytes, work: Callable[[], Awaitable[Any]]) -> Job:
        """Begin a job, as soon as one of those that run is done.

        Raises:
            ApiError: 503 ``too_many_jobs``.
        """
        self._forget()
        if len(self._jobs) >= JOBS_MAX:
            raise coded("too_many_jobs", "too many jobs wait or keep a result; try again later")
        job = Job(str(uuid4()), kind, owner)
        self._jobs[job.job_id] = job
        task = asyncio.create_task(self._run(job, work), name=f"{kind}-{job.job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def get(self, job_id: str, kind: str, owner: bytes) -> Job | None:
        """The owner's job of this id and kind."""
        self._forget()
        job = self._jobs.get(job_id)
        return job if job is not None and (job.kind, job.owner) == (kind, owner) else None

    async def stop(self) -> None:
        """Drop what waits and wait for what runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: Job, work: Callable[[], Awaitable[Any]]) -> None:
        async with self._free:
            job.status = "running"
            try:
                job.result = await work()
                job.status = "done"
            except ApiError as fault:
                job.error, job.status = _said(fault), "error"
            except Exception:
                _log.exception("job %s (%s) failed", job.job_id, job.kind)
                job.error, job.status = "the node failed; its log has the cause", "error"
            job.finished_s = self._now_s()

    def _forget(self) -> None:
        before = self._now_s() - KEPT_S
        for job in list(self._jobs.values()):
            if job.finished_s is not None and job.finished_s < before:
                del self._jobs[job.job_id]


def accepted(job: Job, facts: int) -> dict[str, Any]:
    """The answer 202 to the request that became a job over so many facts."""
    return {
        "job_id": job.job_id,
        "status": job.status,
        "estimated_s": max(1, round(facts / FACTS_PER_S)),
    }


def _said(fault: ApiError) -> str:
    if not isinstance(fault.detail, dict):
        return str(fault.detail)
    detail = cast("dict[str, object]", fault.detail)
    return str(detail.get("message", detail))
