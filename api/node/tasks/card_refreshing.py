"""The task that rewrites memory cards in the background after events that change them."""

import asyncio

from engramlog.api.node.tasks.task import TaskStatus
from engramlog.projections.cards.serving import Cards
from engramlog.projections.image.reader import Reader


class CardRefreshing:
    """See the module. The cards own their threads."""

    name = "cards"

    def __init__(self, cards: Cards, reader: Reader) -> None:
        self._cards = cards
        self._reader = reader
        self._running = False

    async def start(self) -> None:
        self._running = True
        self._cards.start()
        self._reader.followers.append(self._cards.committed)

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
