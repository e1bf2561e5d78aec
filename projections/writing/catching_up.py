"""Brings the tables and the memory image up to the log, and records why that failed."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from engramlog.eventlog.errors import StorageError
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.log import EventLog
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.tables.storage_faults import storage_errors
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.submission import WriterDegraded

CATCH_UP_PAGE_EVENTS = 2_000
CORE_PROJECTORS = frozenset(
    {
        "facts",
        "contradictions",
        "policies",
        "keys",
        "agent_keys",
        "derivations",
        "gardens",
        "capabilities",
        "erasures",
        "aliases",
        "tombstones",
        "manifests",
    }
)
"""Projectors that decisions read: writing stops while one of them is halted."""

_log = logging.getLogger(__name__)


class CatchesUp:
    """A log with its tables and memory image, which one thread keeps up to date. ``degraded``: why
    the node cannot serve fully, or None; each write tries to repair it. ``broken``: why the node
    must be restarted, or None. ``replaced``: files of earlier tables that are not removed yet."""

    def __init__(
        self,
        log: EventLog,
        store: ProjectionStore,
        image: MemoryImage,
        on_commit: Callable[[Sequence[Recorded]], None],
    ) -> None:
        self.log = log
        self.store = store
        self.replaced: set[Path] = set()
        self.image = image
        self._degraded: str | None = None
        self.broken: str | None = None
        self._on_commit = on_commit
        self._untold: Sequence[Recorded] = ()
        """Published events that ``on_commit`` could not take, because the tables were behind."""
        image.tail.write = self._write_tail

    @property
    def degraded(self) -> str | None:
        return self._degraded

    @degraded.setter
    def degraded(self, reason: str | None) -> None:
        if self._degraded is None and reason is not None:
            _log.warning("%s", reason)
        if self._degraded is not None and reason is None:
            _log.info("the projections have caught up with the log")
        self._degraded = reason

    def _catch_up(self) -> None:
        """Apply the log's events that the tables or the memory image lack. A rebuild may have
        brought the tables up already."""
        self.image.tail.settle()
        if self._untold:
            self._tell(self._untold)
        after = min(self.store.position, self.image.position)
        while page := self.log.read(after, CATCH_UP_PAGE_EVENTS):
            after = page[-1].position
            behind = [event for event in page if event.position > self.store.position]
            self._apply(behind)
            fresh = [event for event in page if event.position > self.image.position]
            if fresh:
                self.image.apply(fresh, page[-1].position)
                self._tell(fresh)
        self.degraded = None

    def _tell(self, published: Sequence[Recorded]) -> None:
        self._untold = published
        with storage_errors():
            self._on_commit(published)
        self._untold = ()

    def _write_tail(self, events: Sequence[Recorded]) -> None:
        """Write waiting events into the tables, in whichever thread needs them."""
        try:
            self._apply(events)
        except BaseException as fault:
            self.degraded = f"projections are behind the log: {fault}"
            raise

    def _apply(self, events: Sequence[Recorded]) -> None:
        """Apply events in one transaction of the tables: all or none."""
        self.store.begin()
        try:
            with storage_errors():
                self.store.apply(events)
            self.store.commit()
        except BaseException:
            self.store.rollback()
            raise

    def _follow_log(self) -> None:
        """Bring the tables up to the image; ``degraded`` reports a failure. The writer's thread
        survives every failure: otherwise all waiting callers would wait for ever."""
        try:
            self.image.tail.settle()
        except StorageError:
            pass
        except Exception as fault:
            self._break(fault)

    def _require_health(self) -> None:
        """Refuse to decide while the tables are behind and cannot catch up."""
        if self.broken is not None:
            raise WriterDegraded(self.broken)
        if self.degraded is not None:
            try:
                self._catch_up()
            except StorageError as fault:
                raise WriterDegraded(self.degraded or str(fault)) from fault
        halted = CORE_PROJECTORS & self.store.halted.keys()
        if halted:
            name = min(halted)
            raise WriterDegraded(f"projector {name} is halted: {self.store.halted[name]}")

    def _break(self, fault: Exception) -> None:
        """Stop serving writes, because the image cannot show what the log has. Call inside the
        exception handler."""
        _log.exception("the node cannot follow the log")
        why = str(fault) or type(fault).__name__
        self.broken = f"the node cannot follow the log, restart it: {why}"
        self.degraded = self.broken
