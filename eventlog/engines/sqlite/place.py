"""Whether the log's open files are still those at its path.

A file that is removed under a process keeps taking writes and ends with the process: acknowledged
events would be lost.
"""

import os
from pathlib import Path

from engramlog.eventlog.errors import StorageFailed


class LogFiles:
    """The database at ``path``, which is open, and its write-ahead log, as first seen."""

    def __init__(self, path: Path) -> None:
        self._paths = (str(path), f"{path}-wal")
        self._inodes: dict[str, int] = {}
        self.check()  # as they are now, and not only at the first write

    def check(self) -> None:
        """Raises StorageFailed if one of them was removed or replaced."""
        for path in self._paths:
            found = _inode(path)
            known = self._inodes.get(path, found)
            if found != known:
                raise StorageFailed(
                    f"{path} was removed or replaced while the node serves: put the same file "
                    "back, or export what the node still reads before it stops"
                )
            if found is not None:
                self._inodes[path] = found


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None
