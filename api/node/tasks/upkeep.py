"""Tasks that look after the files and the memory of a node while it serves: the archive, the memory
image, vectors, and memory cards."""

import asyncio

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import LoopTask, TaskStatus
from engramlog.projections.archive.archive import Archive
from engramlog.projections.cards.serving import Cards
from engramlog.projections.image.reader import Reader

SEAL_SECONDS = 30.0
LOOK_SECONDS = 20.0
LAG_MIN = 5_000
LAG_SHARE = 8
"""Events to lag before writing: a fixed count plus one per so many facts. So the bytes written per
fact do not grow with the store."""


class ArchiveSealing(LoopTask):
    """Seals full segments of the log into the archive."""

    def __init__(self, archive: Archive) -> None:
        super().__init__("archive_sealing")
        self._archive = archive

    async def run(self) -> None:
        while True:
            try:
                # One at a time: a node that stops waits for one segment, not for a long backlog.
                while await self.in_thread(self._archive.seal_next):
                    pass
                self.error = None
            except Exception as fault:
                self.failed(fault)
            await asyncio.sleep(SEAL_SECONDS)


class ImageWriting(LoopTask):
    """Keeps the files of the memory image and the vectors close to the log's end, for a quick
    start. The node writes the rest when it closes."""

    def __init__(self, node: Node) -> None:
        super().__init__("image_writing")
        self._node = node

    async def run(self) -> None:
        await asyncio.sleep(LOOK_SECONDS)  # the node has just opened
        await self.repeat(self.write_due, LOOK_SECONDS)

    def write_due(self) -> None:
        node = self._node
        if node.kept_image.lag() >= max(LAG_MIN, node.reader.image.published // LAG_SHARE):
            node.kept_image.write()
        node.write_vectors()


class Embedding:
    """Reports on the embedding worker, which lives as long as the open node. When the app stops,
    gives up a running re-indexing, so that its job ends."""

    name = "embedding"

    def __init__(self, node: Node) -> None:
        self._node = node

    async def start(self) -> None:
        """The worker started with the node."""

    async def stop(self) -> None:
        if self._node.embeddings is not None:
            self._node.embeddings.stop_reindexing()

    def status(self) -> TaskStatus:
        embeddings = self._node.embeddings
        found = None if embeddings is None else embeddings.status()
        if found is None:
            return TaskStatus(self.name, "off")
        if found.error is not None:
            return TaskStatus(self.name, "failing", found.error)
        return TaskStatus(self.name, "running" if found.lag else "idle")


class CardRefreshing:
    """Rewrites memory cards after events that change them. The cards own their threads."""

    name = "cards"

    def __init__(self, cards: Cards, reader: Reader) -> None:
        self._cards = cards
        self._reader = reader
        self._running = False

    async def start(self) -> None:
        self._running = True
        self._reader.followers.append(self._cards.committed)
        self._cards.start()

    async def stop(self) -> None:
        """Finish the card in progress and drop those that wait."""
        if not self._running:
            return
        self._running = False
        self._reader.followers.remove(self._cards.committed)
        await asyncio.to_thread(self._cards.close)

    def status(self) -> TaskStatus:
        if not self._running:
            return TaskStatus(self.name, "stopped")
        waiting = self._cards.queue.waiting + self._cards.embedding.waiting
        return TaskStatus(self.name, "running" if waiting else "idle")
