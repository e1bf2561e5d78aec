"""The task that seals full segments of the log into the archive while the node serves."""

import asyncio

from engramlog.api.node.tasks.task import LoopTask
from engramlog.projections.archive.archive import Archive

SEAL_SECONDS = 30.0


class ArchiveSealing(LoopTask):
    """See the module."""

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
