"""The task that keeps the files of the memory image and the vectors close to the log's end, for a
quick start."""

import asyncio

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import LoopTask

LOOK_SECONDS = 20.0
LAG_MIN = 5_000
LAG_SHARE = 8
"""Events to lag before writing: a fixed count plus one per so many facts. So the bytes written per
fact do not grow with the store."""


class ImageWriting(LoopTask):
    """See the module. The node writes the rest when it closes."""

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
