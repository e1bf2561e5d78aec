"""Whether a speaker is a machine, judged by the client's name for it."""

import re

import numpy as np

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.columns.judged_numbers import JudgedNumbers
from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display

MACHINES = frozenset({"agent", "ai", "assistant", "bot", "chatbot", "llm", "system", "tool"})

_WORD = re.compile(r"[^\W_]+")


def is_machine(entity: str) -> bool:
    """Whether the last part of an entity's URI holds a word for a machine in a conversation, as in
    ``person/assistant`` or ``speaker/weather-bot``."""
    return not MACHINES.isdisjoint(_WORD.findall(entity_display(entity).casefold()))


class MachineNames:
    """Which entities are machines. Any thread may ask."""

    def __init__(self, names: Interner) -> None:
        self._names = names
        self._judged = JudgedNumbers()

    def among(self, numbers: I32) -> Bool:
        """For each of the entities, given by number."""
        return self._judged.among(numbers, self._are_machines)

    def _are_machines(self, numbers: I32) -> Bool:
        found = [is_machine(self._names.text(number)) for number in numbers.tolist()]
        return np.array(found, dtype=np.bool_)
