"""engramlog: a memory for AI agents, over an append-only event log.

This module is the public door. Users reach everything else through it; the rest is internal.
"""

import importlib
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    raise ImportError("engramlog runs on Linux and macOS; on Windows, use it in WSL")

if TYPE_CHECKING:
    from engramlog.api.client.client import ClientError
    from engramlog.api.node.node import Node
    from engramlog.api.python.async_memory import AsyncMemory
    from engramlog.api.python.memory import Memory
    from engramlog.api.python.values import Ref
    from engramlog.eventlog.errors import EventLogError

    __version__: str

__all__ = [
    "AsyncMemory", "ClientError", "EventLogError", "Memory", "Node", "Ref", "__version__",
]  # fmt: skip

_HOMES = {
    "AsyncMemory": "engramlog.api.python.async_memory",
    "ClientError": "engramlog.api.client.client",
    "EventLogError": "engramlog.eventlog.errors",
    "Memory": "engramlog.api.python.memory",
    "Node": "engramlog.api.node.node",
    "Ref": "engramlog.api.python.values",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use, so that ``import engramlog`` is quick."""
    if name == "__version__":
        from engramlog.api.release import release

        return release()
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'engramlog' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
