"""Whether a speaker is a machine, judged by the client's name for it."""

from __future__ import annotations

import re
from functools import lru_cache

from engramlog.projections.normalization import entity_display

MACHINES = frozenset({"agent", "ai", "assistant", "bot", "chatbot", "llm", "system", "tool"})
NAMES_KEPT_MAX = 131_072

_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=NAMES_KEPT_MAX)
def is_machine(entity: str) -> bool:
    """Whether the last part of an entity's URI holds a word for a machine in a conversation, as in
    ``person/assistant`` or ``speaker/weather-bot``."""
    return not MACHINES.isdisjoint(_WORD.findall(entity_display(entity).casefold()))
