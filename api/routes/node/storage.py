"""The node's files on disk."""

import os
import shutil
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes

routes = Routes("node")

FILES_MAX = 2_000
Holds: TypeAlias = Literal[
    "log", "projections", "vectors", "archive", "snapshots", "identity", "other"
]


class StoredFile(Struct):
    """A file below the data directory; ``holds``: its content, judged by its name."""

    name: str
    holds: Holds
    size_bytes: int


class Storage(Struct):
    """Files, the largest first, at most 2,000; ``total_bytes`` counts all."""

    files: list[StoredFile]
    total_bytes: int
    free_bytes: int


@routes.add("GET /v1/admin/storage", permission="admin")
def storage(call: Call) -> Storage:
    """The files of the data directory with their sizes, the largest first."""
    path = call.node.directory.path
    files = sorted(_files(path), key=lambda each: (-each.size_bytes, each.name))
    total_bytes = sum(each.size_bytes for each in files)
    return Storage(files[:FILES_MAX], total_bytes, shutil.disk_usage(path).free)


def _files(path: Path) -> list[StoredFile]:
    found: list[StoredFile] = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if file.is_symlink():
                continue
            try:
                size = file.stat().st_size
            except FileNotFoundError:  # a journal that was deleted meanwhile
                continue
            relative = file.relative_to(path).as_posix()
            found.append(StoredFile(relative, _holds(relative), size))
    return found


_BEGINNINGS: tuple[tuple[str, Holds], ...] = (
    ("log.db", "log"),
    ("projections", "projections"),
    ("vectors", "vectors"),
    ("embeddings", "vectors"),
    ("archive/", "archive"),
    ("snapshots/", "snapshots"),
    ("identity/", "identity"),
)


def _holds(name: str) -> Holds:
    """A file's content, judged by its name."""
    for begin, held in _BEGINNINGS:
        if name.startswith(begin):
            return held
    return "other"
