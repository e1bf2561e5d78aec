"""What the node keeps on disk, file by file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from aiohttp import web

from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.answers import Storage

routes = Routes("node")

FILES_MAX = 2_000


@routes.add(
    "GET",
    "/v1/admin/storage",
    permission="admin",
    summary="The files of the data directory",
    answers={200: Storage},
)
async def storage(call: Call) -> web.Response:
    """The files of the data directory with their sizes, the largest first."""
    path = call.node.directory.path
    return answer(await call.in_pool(lambda: _storage(path)))


def _storage(path: Path) -> dict[str, Any]:
    files = sorted(_files(path), key=lambda each: (-each["size_bytes"], each["name"]))
    return {
        "files": files[:FILES_MAX],
        "total_bytes": sum(each["size_bytes"] for each in files),
        "free_bytes": shutil.disk_usage(path).free,
    }


def _files(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if file.is_symlink():
                continue
            try:
                size = file.stat().st_size
            except FileNotFoundError:  # a journal that was just taken away
                continue
            relative = file.relative_to(path).as_posix()
            found.append({"name": relative, "holds": _holds(relative), "size_bytes": size})
    return found


_BEGINNINGS = (
    ("log.db", "log"),
    ("projections", "projections"),
    ("vectors", "vectors"),
    ("embeddings", "vectors"),
    ("archive/", "archive"),
    ("snapshots/", "snapshots"),
    ("identity/", "identity"),
)


def _holds(name: str) -> str:
    """What a file is for, by its name."""
    return next((held for begin, held in _BEGINNINGS if name.startswith(begin)), "other")
