"""A snapshot or a rebuild that ends at a given point."""

import os
import signal
from importlib import import_module
from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from tests.worlds.histories import asserted

DIGEST = "digest"
"""A file beside the data directory: the digest of its tables."""


def rebuilding(folder: Path, point: str) -> None:
    """Take snapshots and rebuild. ``point``: the call before which it ends, or (``write_new``)
    half-way through which."""
    node = Node.open(folder)
    node.write(*[asserted(value=Value("string", f"v{n}")) for n in range(40)])
    kept = node.snapshot()
    node.write(*[asserted(entity="user:c", value=Value("string", f"v{n}")) for n in range(40)])
    (folder.parent / DIGEST).write_text(node.reader.digests().local)
    name, function = point.rsplit(".", 1)
    module = import_module(name)
    known = getattr(module, function)

    def die(*given: object, **_: object) -> None:
        if function == "write_new":
            path, data = given
            assert isinstance(path, Path)
            assert isinstance(data, bytes)
            known(path, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, function, die)
    if point == "engramlog.replay.rebuild.sync_file":
        node.snapshot(kept.position - 3)
    if name != "engramlog.replay.rebuild":
        node.snapshot()
    node.rebuild()
