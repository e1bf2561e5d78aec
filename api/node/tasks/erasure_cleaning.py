"""The task that cleans up after erasures while the node serves, and resumes after a restart."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import LoopTask
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactErased
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.embedding.current import purge_files
from engramlog.projections.image.reader import Reader
from engramlog.projections.tables.facts.erasures import find_erasure_receipt
from engramlog.replay.erasing import Cleaner
from engramlog.replay.replication.state import promoted_state

RETRY_SECONDS = 30.0


class ErasureCleaning(LoopTask):
    """See the module; ``wake`` after every erasure.

    Args: noted: called at each erasure with what finds its erased positions, and at the start with
        what finds those of all unclean ones: files with these positions must not be read.
        flush: writes the recall receipts that wait in memory: they may repeat the text.

    Attributes: step: the step in progress, None if nothing is to clean.
    """

    def __init__(
        self,
        cleaner: Cleaner,
        reader: Reader,
        flush: Callable[[], Awaitable[None]],
        noted: Callable[[Callable[[], list[int]]], None],
    ) -> None:
        super().__init__("erasure_cleaning", reader)
        self._noted = noted
        self.step: str | None = None
        self._cleaner = cleaner
        self._reader = reader
        self._flush = flush
        self._round = asyncio.Condition()

    async def start(self) -> None:
        self._noted(lambda: self._cleaner.positions(self._cleaner.unclean()))
        self._woken.set()  # erasures that an earlier process left unclean
        await super().start()

    def committed(self, events: Sequence[Recorded]) -> None:
        """Erasures come from requests and from other nodes."""
        took = [
            event.payload
            for event in events
            if event.peer is None and isinstance(event.payload, FactErased)
        ]
        if took:
            self._noted(lambda: self._cleaner.positions_named(took))
            self.wake()

    async def wait(self, erasure_id: str, timeout_seconds: float) -> bool:
        """Whether an erasure is clean, waiting at most that long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._round:
                await self._round.wait_for(lambda: self._is_clean(erasure_id))
        return self._is_clean(erasure_id)

    def _is_clean(self, erasure_id: str) -> bool:
        return self._reader.ask(find_erasure_receipt, erasure_id) is not None

    async def run(self) -> None:
        while True:
            await self.pause(None if self.error is None else RETRY_SECONDS)
            await self._once()
            async with self._round:
                self._round.notify_all()

    async def _once(self) -> None:
        try:
            if not await asyncio.to_thread(self._cleaner.unclean):
                self.error = None
                return
            await self._flush()
            await self.in_thread(lambda: self._cleaner.clean(self._note))
            self.error = None
        except Exception as fault:
            self.failed(fault)
        self.step = None

    def _note(self, step: str) -> None:
        self.step = step


def cleaning_of(
    node: Node,
    archive: Archive,
    desk: AuditDesk,
    flush: Callable[[], Awaitable[None]],
    restart_readers: Callable[[], None],
) -> ErasureCleaning:
    """The cleaning task of a node. ``restart_readers``: makes other processes release the image
    files."""

    def noted(positions: Callable[[], list[int]]) -> None:
        archive.note_erased(positions)
        desk.note_erased()

    cleaner = cleaner_of(node, archive, desk, restart_readers)
    return ErasureCleaning(cleaner, node.reader, flush, noted)


def cleaner_of(
    node: Node,
    archive: Archive,
    desk: AuditDesk,
    restart_readers: Callable[[], None] = lambda: None,
) -> Cleaner:
    def purge_vectors(position: int, gone: frozenset[str], keys: Iterator[bytes]) -> None:
        if node.embeddings is None:
            purge_files(node.directory.path)
        else:
            node.embeddings.purge(position, gone, keys)

    def discard_images(_positions: list[int]) -> None:
        node.kept_image.discard()
        restart_readers()

    return Cleaner(
        node.log,
        node.writer,
        node.reader,
        node.identity,
        node.clock,
        node.directory.projections_path,
        archive,
        purge_vectors,
        node.snapshots,
        further={
            "audit files": lambda _positions: desk.discard(),
            "memory image": discard_images,
        },
        copies=lambda: not node.leads,
        copied=(
            node.shared is not None
            or node.replica is not None
            or promoted_state(node.directory.path) is not None
        ),
    )
