"""Files that commands write for the user."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engramlog.eventlog.durable_file import naming, sync, sync_folder

UNFINISHED = ".unfinished"


@contextmanager
def output_file(path: Path) -> Generator[IO[bytes]]:
    """Write a file for the length of a ``with`` block. It appears complete when the block ends: a
    command that fails or is killed leaves the earlier file, which may be the user's only copy.
    Pipes, devices, and files in a folder that takes no other files are written at once."""
    target = path.resolve()  # a link stays one
    if target.exists() and not (target.is_file() and os.access(target.parent, os.W_OK)):
        with naming(target), target.open("wb") as out:
            yield out
        return
    unfinished = target.with_name(target.name + UNFINISHED)
    try:
        with naming(target), unfinished.open("wb") as out:
            if target.exists():
                shutil.copymode(target, unfinished)
            yield out
            out.flush()
            sync(out.fileno())
        unfinished.replace(target)
        sync_folder(target.parent)
    finally:
        unfinished.unlink(missing_ok=True)
