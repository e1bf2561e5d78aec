"""Jobs: long work that a request begins and that other requests ask about.

``RequestJobs`` answer later: a large request becomes a job, and the caller fetches the result by
id. Only the credential that started a job finds it, while it has the same rights; to all others it
does not exist. Memory keeps results for ten minutes; a restart drops them, and so does an event
that takes facts away: results may quote these.

``SingleJob`` is work on the whole node (a rebuild, a snapshot): one of a kind at a time, in a
thread, with its progress.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct, UnsetType

from engramlog.api.http.errors import ApiError, coded, plain
from engramlog.api.node.tasks.task import TaskStatus
from engramlog.eventlog.errors import EventLogError
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ContentReviewed, FactAttributesSet, FactErased, TombstoneSet
from engramlog.projections.authorization import CEILING, OPEN_CLASS, SECRET_CLASS
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.moment import format_instant
from engramlog.replay.rebuild import DigestMismatch

KEPT_S = 600.0
RUNNING_MAX = 2
"""Jobs that run at a time, so that reads keep threads; others are pending."""
JOBS_MAX = 1000
WAITING_EACH_MAX = 8
"""Jobs of one caller that have not ended."""
KEPT_EACH_MAX = 100
"""Jobs of one caller with a result; the oldest goes first."""
FACTS_PER_S = 200_000
"""A cautious rate, for ``estimated_s``."""

Progress = Callable[[int, int], None]
"""Called with (done, in all)."""
JobState = Literal["idle", "pending", "running", "done", "error"]

_log = logging.getLogger(__name__)


class JobRecord(Struct, kw_only=True):
    """A job: ``result`` once done, ``error`` once failed."""

    job_id: str | None
    status: JobState
    result: Any = UNSET
    error: str | UnsetType = UNSET


class JobAccepted(Struct):
    """The request became a job: poll its id."""

    job_id: str | None
    status: JobState
    estimated_s: int


_EXPLAINED = (EventLogError, EmbeddingError, DigestMismatch)
"""Failures whose message is complete."""


class Job(Struct, kw_only=True):
    """One job. ``owner``: digest of the credential that may read it; empty for any. ``caller``: its
    principal. ``ceiling``: the highest class of facts that its owner reads; ``hidings``: see
    ``RequestJobs``."""

    kind: str
    owner: bytes = b""
    caller: str = ""
    ceiling: int = CEILING
    hidings: int = 0
    job_id: str | None = msgspec.field(default_factory=lambda: str(uuid4()))
    status: JobState = "pending"
    result: Any = None
    error: str | None = None
    began_s: float = 0.0
    ended_s: float | None = None

    async def run(self, work: Awaitable[Any], now_s: Callable[[], float]) -> None:
        """Wait for the work, and keep its outcome."""
        self.status, self.began_s = "running", now_s()
        try:
            self.result = await work
            self.status = "done"
        except Exception as fault:
            self.error, self.status = self._reason(fault), "error"
        self.ended_s = now_s()

    def _reason(self, fault: Exception) -> str:
        """The reason to report: callers see no internal errors."""
        if isinstance(fault, ApiError):
            return _message_of(fault)
        if isinstance(fault, _EXPLAINED) and not self.owner:
            _log.warning("%s failed: %s", self.kind, fault)
            return str(fault)
        _log.exception("job %s (%s) failed", self.job_id, self.kind)
        return "the node failed; its log has the cause" if self.owner else str(fault)

    def record(self) -> JobRecord:
        """The job in the protocol's shape."""
        record = JobRecord(job_id=self.job_id, status=self.status)
        if self.status == "done":
            record.result = self.result
        if self.error is not None:
            record.error = self.error
        return record


class RequestJobs:
    """See the module. For use within one event loop, except ``committed``."""

    name = "jobs"

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(RUNNING_MAX)
        self._hidings = Counter[int]()
        """How often facts were erased or hidden: from readers with a ceiling below each."""

    def committed(self, events: Sequence[Recorded]) -> None:
        """Called with published events."""
        self._hidings.update(filter(None, map(_hidden_below, events)))

    async def start(self) -> None:
        """Nothing runs before a request begins it."""

    async def stop(self) -> None:
        """Cancel pending jobs and wait for running ones."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def status(self) -> TaskStatus:
        return TaskStatus(self.name, "running" if self._tasks else "idle")

    def begin(
        self,
        kind: str,
        owner: bytes,
        caller: str,
        work: Callable[[], Awaitable[Any]],
        ceiling: int = CEILING,
    ) -> Job:
        """Begin a job as soon as a running one ends. Raises ApiError 503 ``too_many_jobs``."""
        self._forget()
        own = [name for name, job in self._jobs.items() if job.caller == caller]
        ended = [name for name in own if self._jobs[name].ended_s is not None]
        if len(own) - len(ended) >= WAITING_EACH_MAX or len(self._jobs) >= JOBS_MAX:
            raise coded("too_many_jobs", "too many jobs wait or keep a result; try again later")
        if len(ended) >= KEPT_EACH_MAX:
            del self._jobs[ended[0]]
        hidings = self._hidings_from(ceiling)
        job = Job(kind=kind, owner=owner, caller=caller, ceiling=ceiling, hidings=hidings)
        self._jobs[str(job.job_id)] = job
        task = asyncio.create_task(self._run(job, work), name=f"{kind}-{job.job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def get(self, job_id: str, kind: str, owner: bytes) -> Job:
        """The owner's job of this id and kind. Raises ApiError 404."""
        self._forget()
        job = self._jobs.get(job_id)
        if job is None or (job.kind, job.owner) != (kind, owner):
            raise plain("job_not_found")
        return job

    async def _run(self, job: Job, work: Callable[[], Awaitable[Any]]) -> None:
        async with self._free:
            await job.run(work(), self._now_s)

    def _forget(self) -> None:
        """Jobs that have not ended count until they do, even if their result is for no one."""
        before = self._now_s() - KEPT_S
        for name, job in list(self._jobs.items()):
            hidden = job.hidings != self._hidings_from(job.ceiling)
            if job.ended_s is not None and (hidden or job.ended_s < before):
                del self._jobs[name]

    def _hidings_from(self, ceiling: int) -> int:
        """How often facts were taken from a reader with this ceiling."""
        known = self._hidings.copy()  # the writer may add to it meanwhile
        return sum(times for below, times in known.items() if below > ceiling)


class WorkRecord(Struct, kw_only=True):
    """The progress of the work, or the outcome of the last run."""

    unit: ClassVar[str]
    """The unit of progress (``events``); names three fields of each subclass."""
    job_id: str | None
    status: JobState
    left_s: float | None
    started_at: str | None
    finished_at: str | None
    result: dict[str, Any] | None
    error: str | None


class Rebuild(WorkRecord, kw_only=True):
    """The progress of the rebuild, or the outcome of the last one."""

    unit = "events"
    events: int
    events_total: int
    events_per_s: float | None


class Reindex(WorkRecord, kw_only=True):
    """The progress of re-indexing, or the outcome of the last one."""

    unit = "facts"
    facts: int
    facts_total: int
    facts_per_s: float | None


class SnapshotJob(WorkRecord, kw_only=True):
    """The progress of taking or verifying a snapshot, or the outcome of the last one. ``steps``: of
    the copy, or events while building tables from the log."""

    unit = "steps"
    steps: int
    steps_total: int
    steps_per_s: float | None


AnyWork = TypeVar("AnyWork", bound=WorkRecord)


class SingleJob(Generic[AnyWork]):
    """``begin`` starts the work in a thread, ``record`` reports its progress.

    Args:
        name: of the work, for the log and for refusals (``rebuild``).
        shape: of the record.
        now_us: the node's clock.
    """

    def __init__(self, name: str, shape: type[AnyWork], now_us: Callable[[], int]) -> None:
        self.name = name
        self._shape = shape
        self._now_us = now_us
        self._task: asyncio.Task[None] | None = None
        self._job = Job(kind=name, job_id=None, status="idle")
        self._progress = (0, 0)
        self._started_at: str | None = None
        self._finished_at: str | None = None

    async def start(self) -> None:
        """Nothing runs before a request begins it."""

    async def stop(self) -> None:
        """Wait for running work: it must not stop halfway."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def status(self) -> TaskStatus:
        working = self._task is not None and not self._task.done()
        return TaskStatus(self.name, "running" if working else "idle", self._job.error)

    def begin(self, work: Callable[[Progress], object]) -> None:
        """Begin. Raises ApiError 409 ``{name}_running`` while such work runs."""
        if self._task is not None and not self._task.done():
            raise coded(f"{self.name}_running", f"a {self.name} is running")
        self._progress = (0, 0)
        self._started_at, self._finished_at = self._now(), None
        self._job = Job(kind=self.name, status="running", began_s=monotonic())
        self._task = asyncio.create_task(self._run(self._job, work), name=self.name)

    def record(self) -> AnyWork:
        """Id, state, progress, times, and the report of the run: the last, or the present one."""
        job, (done, total) = self._job, self._progress
        seconds = (job.ended_s or monotonic()) - job.began_s
        rate = done / seconds if done and seconds > 0 else None
        left = (total - done) / rate if rate and job.status == "running" else None
        unit = self._shape.unit
        progress: dict[str, Any] = {
            unit: done,
            f"{unit}_total": total,
            f"{unit}_per_s": None if rate is None else round(rate, 1),
        }
        return self._shape(
            job_id=job.job_id,
            status=job.status,
            left_s=None if left is None else round(left, 1),
            started_at=self._started_at,
            finished_at=self._finished_at,
            result=job.result,
            error=job.error,
            **progress,
        )

    async def _run(self, job: Job, work: Callable[[Progress], object]) -> None:
        await job.run(asyncio.to_thread(lambda: msgspec.to_builtins(work(self._count))), monotonic)
        self._finished_at = self._now()

    def _count(self, done: int, total: int) -> None:
        self._progress = (done, total)

    def _now(self) -> str:
        return format_instant(self._now_us())


def accepted(job: Job, facts: int) -> JobAccepted:
    """The answer 202 to a request over so many facts, which became a job."""
    return JobAccepted(job.job_id, job.status, max(1, round(facts / FACTS_PER_S)))


def _hidden_below(event: Recorded) -> int:
    """An event may take facts away from readers with a ceiling below this; 0: from none."""
    change = event.payload
    if isinstance(change, FactAttributesSet) and change.attributes.classification <= OPEN_CLASS:
        return change.attributes.classification
    keeps = isinstance(change, ContentReviewed) and change.decision == "keep"
    hides = isinstance(change, FactAttributesSet | FactErased | TombstoneSet)
    return SECRET_CLASS + 1 if keeps or hides else 0


def _message_of(fault: ApiError) -> str:
    if not isinstance(fault.detail, dict):
        return str(fault.detail)
    detail = cast("dict[str, object]", fault.detail)
    return str(detail.get("message", detail))
