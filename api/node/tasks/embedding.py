"""Embedding as a task. Its worker lives as long as the open node. When the app stops, a running
re-indexing is given up, so that its job ends."""

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import TaskStatus


class Embedding:
    """See the module."""

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
