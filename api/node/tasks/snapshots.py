"""Snapshots of a serving node: scheduled ones, and the job for requested ones."""

from msgspec import Struct

from engramlog.api.answers.same_fields import shaped
from engramlog.api.http.errors import coded
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.jobs import Progress, SingleJob, SnapshotJob
from engramlog.api.node.tasks.task import LoopTask, TaskStatus
from engramlog.replay.snapshot import SnapshotFault, mismatch

LOOK_SECONDS = 5.0


class SnapshotRecord(Struct):
    """One snapshot. ``reason``: why no rebuild starts from it, judged without reading its file;
    null if one may."""

    position: int
    hash: str | None = None
    made_at: str | None = None
    automatic: bool | None = None
    bytes: int | None = None
    digest: str | None = None
    reason: str | None = None


class SnapshotList(Struct):
    """Newest first. ``error``: why the last automatic snapshot failed."""

    snapshots: list[SnapshotRecord]
    every_events: int
    keep: int
    error: str | None
    job: SnapshotJob


class Checked(Struct, frozen=True):
    """A verified snapshot; ``fault`` is null if it is good."""

    position: int
    fault: str | None


class SnapshotVerification(Struct, frozen=True):
    """The findings of a verification."""

    checked: list[Checked]


class SnapshotTaking(LoopTask):
    """See the module.

    Args: every_events: events between automatic snapshots; 0 for none.
        keep: how many automatic snapshots to keep.

    Attributes: job: takes and verifies requested snapshots.
    """

    def __init__(self, node: Node, every_events: int, keep: int) -> None:
        super().__init__("snapshots")
        self.job = SingleJob("snapshot", SnapshotJob, node.clock.now_us)
        self._node = node
        self._every_events = every_events
        self._keep = keep

    @property
    def wanted(self) -> bool:
        return self._every_events > 0

    async def stop(self) -> None:
        """Stop after the snapshot in progress."""
        await super().stop()
        await self.job.stop()

    def status(self) -> TaskStatus:
        own = super().status()
        return own if self.job.status().state == "idle" else TaskStatus(self.name, "running")

    def take(self, position: int | None) -> None:
        """Begin to take one. Raises ApiError 409 ``snapshot_running``, or 400 ``as_of_future`` if
        the log has no such position."""
        head = self._node.log.head().position
        if position is not None and position > head:
            raise coded("as_of_future", f"position {position} is beyond the log's end, {head}")

        def work(progress: Progress) -> SnapshotRecord:
            return shaped(self._node.snapshot(position, progress), SnapshotRecord, reason=None)

        self.job.begin(work)

    def verify(self, position: int | None, *, replay: bool) -> None:
        """Begin to verify one or all. Raises ApiError 409 ``snapshot_running``, or 404
        ``snapshot_not_found``."""
        if position is not None:
            try:
                self._node.snapshots.get(position)
            except SnapshotFault as fault:
                raise coded("snapshot_not_found", str(fault)) from fault
        self.job.begin(lambda progress: self._verify(position, replay, progress))

    def records(self) -> SnapshotList:
        """Every snapshot, and the state of automatic ones."""
        found, broken = self._node.snapshots.all()
        log = self._node.log
        records = [shaped(each, SnapshotRecord, reason=mismatch(each, log)) for each in found]
        records += [SnapshotRecord(each.position, reason=each.reason) for each in broken]
        return SnapshotList(
            snapshots=sorted(records, key=lambda each: -each.position),
            every_events=self._every_events,
            keep=self._keep,
            error=self.error,
            job=self.job.record(),
        )

    def _verify(
        self, position: int | None, replay: bool, progress: Progress
    ) -> SnapshotVerification:
        node = self._node
        if position is not None:
            found, checked = [node.snapshots.get(position)], []
        else:
            found, broken = node.snapshots.all()
            checked = [Checked(each.position, each.reason) for each in broken]
        for number, snapshot in enumerate(found):
            progress(number, len(found))
            fault = node.snapshot_fault(snapshot, progress, replay=replay)
            checked.append(Checked(snapshot.position, fault))
        progress(len(found), len(found))
        return SnapshotVerification(checked)

    async def run(self) -> None:
        await self.repeat(self._take_due, LOOK_SECONDS)

    def _take_due(self) -> None:
        node = self._node
        found, _ = node.snapshots.all()
        newest = max((each.position for each in found), default=0)
        # The tables' position counts, for the snapshot copies them; they may trail the log.
        if node.reader.image.position - newest >= self._every_events:
            node.snapshot(automatic=True)
            node.snapshots.prune(self._keep)
