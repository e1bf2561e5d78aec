"""Embedding as a task. Its worker lives as long as the open node; a stop of the app gives up a
re-indexing that is under way, so that the job of it ends."""

from __future__ import annotations

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import TaskStatus


class Embedding:
    """See the module."""

    name = "embedding"

    def __init__(self, node: Node) -> None:
        self._node = node

    async def start(self) -> None:
        """The worker began with the node."""

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
