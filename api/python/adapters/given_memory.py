"""The memory that a user gives to an adapter: blocking or awaited, with the same answers."""

from engramlog.api.python.async_memory import AsyncMemory, AsyncMemoryView
from engramlog.api.python.memory import MemoryView


def awaited_view(memory: object) -> AsyncMemoryView:
    """The verbs that read, to await. Raises TypeError for anything but a memory."""
    awaited = memory.awaited if isinstance(memory, MemoryView) else memory
    if not isinstance(awaited, AsyncMemoryView):
        raise TypeError(
            f"memory: give a Memory, an AsyncMemory or a view of one, not a {type(memory).__name__}"
        )
    return awaited


def awaited_memory(memory: object) -> AsyncMemory:
    """All verbs, to await. Raises TypeError for anything but a memory, also for its past."""
    awaited = awaited_view(memory)
    if not isinstance(awaited, AsyncMemory):
        raise TypeError("memory: a view of the past is read-only: give the memory itself")
    return awaited
