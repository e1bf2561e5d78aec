"""Whether a speaker is a machine, judged by the client's name for it."""

import re

import numpy as np

from engramlog.projections.arrays import I8, I32, Bool
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
    """Which names are those of machines. Any thread may ask."""

    def __init__(self, names: Interner) -> None:
        self._names = names
        self._judged = JudgedNumbers()

    def among(self, numbers: I32) -> Bool:
        """For each of the names, given by number."""
        return self._judged.of(numbers, self._are_machines) > 0

    def _are_machines(self, numbers: I32) -> I8:
        found = [is_machine(self._names.text(number)) for number in numbers.tolist()]
        return np.array(found, dtype=np.int8)
