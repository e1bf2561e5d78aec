"""Whether a speaker is a machine, judged by the client's name for it."""

import re

import numpy as np

from engramlog.projections.arrays import I8, I32, Bool
from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display

MACHINES = frozenset({"agent", "ai", "assistant", "bot", "chatbot", "llm", "system", "tool"})
_PERSON, _MACHINE = 1, 2

_WORD = re.compile(r"[^\W_]+")


def is_machine(entity: str) -> bool:
    """Whether the last part of an entity's URI holds a word for a machine in a conversation, as in
    ``person/assistant`` or ``speaker/weather-bot``."""
    return not MACHINES.isdisjoint(_WORD.findall(entity_display(entity).casefold()))


class MachineNames:
    """Which entities are machines, judged once each, when first asked. Any thread may ask."""

    def __init__(self, names: Interner) -> None:
        self._names = names
        self._judged: I8 = np.zeros(0, dtype=np.int8)

    def among(self, numbers: I32) -> Bool:
        """For each of the entities, given by number."""
        judged = self._judged
        count = int(numbers.max(initial=-1)) + 1
        if count > len(judged):  # a thread that grows it at the same time judges some again
            grown = np.zeros(2 * count, dtype=np.int8)
            grown[: len(judged)] = judged
            self._judged = judged = grown
        for number in set(numbers[judged[numbers] == 0].tolist()):
            judged[number] = _MACHINE if is_machine(self._names.text(number)) else _PERSON
        return judged[numbers] == _MACHINE
