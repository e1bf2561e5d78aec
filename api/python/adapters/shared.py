"""What the adapters share: the memory that a user gives, and a fact in a framework's terms."""

from typing import Any

from engramlog.api.answers.recall.statements import statement_of
from engramlog.api.python.async_memory import AsyncMemory, AsyncMemoryView
from engramlog.api.python.memory import MemoryView
from engramlog.api.python.results import Fact


def needs(library: str, extra: str) -> ImportError:
    """The error of an adapter without its framework."""
    return ImportError(f"{library} is not installed: pip install engramlog[{extra}]")


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


def text_of_fact(fact: Fact) -> str:
    """The fact as a sentence."""
    return statement_of(fact.record)


def metadata_of(fact: Fact) -> dict[str, Any]:
    """Plain values only, which every framework accepts."""
    return {
        "id": fact.id,
        "entity": fact.entity,
        "relation": fact.relation,
        "source": fact.source,
        "scope": fact.scope,
        "confidence": fact.confidence,
        "recorded_at": fact.record["timestamp"],
        "score": fact.score,
    }
