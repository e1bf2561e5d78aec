"""Keeps the memory image in files beside the tables, so that a start need not fold every event."""

import logging
from collections.abc import Callable

from engramlog.eventlog.errors import StorageError, StorageFailed
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.image.files import ImageFiles
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.sealed_sections import released
from engramlog.projections.writing.writer import Writer

CLOSING_LAG_MIN = 2_000
CLOSING_LAG_SHARE = 8
"""Write files at close if they are behind by this many events, and by one per this many facts.
Folding an event takes about as long as writing eight facts, so with fewer events the next start
would gain less than the close loses, which has ten seconds in a container."""

_log = logging.getLogger(__name__)


class KeptImage:
    """The image files of a node that holds its directory."""

    def __init__(
        self, files: ImageFiles, image: MemoryImage, writer: Writer, log: ReadableLog
    ) -> None:
        self.files = files
        self._image = image
        self._writer = writer
        self._log = log

    def lag(self) -> int:
        """How many positions the files are behind; 0 if nothing is to write, or if the memory image
        differs from the log."""
        if self._writer.degraded is not None or self._writer.store.halted:
            return 0
        return self._image.position - self.files.position

    def write(self) -> int | None:
        """Write the image while reads and writes continue; returns its position, None if an erasure
        happened meanwhile. Raises OSError."""
        return self.files.write(
            self._image, self._log, lambda work: self._writer.exclusive(work).result()
        )

    def discard(self) -> None:
        """Remove the files, and unmap them here. Raises OSError: a file cannot be removed.
        StorageFailed: a running request still reads one."""
        self.files.discard()
        held: Callable[[], object | None] = self._writer.exclusive(self._image.unmap).result()
        if not released([held]):
            raise StorageFailed("a removed image file is still being read")

    def leave(self) -> None:
        """After the writer is closed: write files for the next start, if the present ones are far
        behind."""
        try:
            far = max(CLOSING_LAG_MIN, self._image.published // CLOSING_LAG_SHARE)
            if self.lag() >= far:
                self.files.write(self._image, self._log)
        except (OSError, StorageError) as fault:
            _log.warning("no image files are left for the next start: %s", fault)
