"""What the texts of values say about who speaks: the name that begins a text, as in transcripts
(``Ann: see you at nine``), and whether it is a sentence."""

import re
import threading
from collections.abc import Sequence

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.columns.judged_numbers import JudgedNumbers
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.columns.names.machine_names import MachineNames
from engramlog.projections.interner import Interner
from engramlog.projections.text.stop_words import STOP_WORDS

NONE = -1
"""The label of a text without one."""
_LABEL = re.compile(r"\s*([^\W\d_](?:[\w.'\u2019&-]| (?=\S)){0,39})(?::\s+|\uff1a\s*)\S")
"""A name of at most 40 characters, a colon and a space, and then something said."""


class SpokenTexts:
    """By value number; each text is read once, when first asked. ``names`` has the text of each
    label, in lower case. Any thread may ask."""

    def __init__(self, said: Sequence[str]) -> None:
        self.names = Interner()
        self.machines = MachineNames(self.names)
        self._said = said
        self._labels = JudgedNumbers(np.int32)
        self._words = JudgedNumbers(np.int64)
        self._lock = threading.Lock()

    def labels(self, values: I32) -> I32:
        """The number of each value's label, or ``NONE``."""
        with self._lock:
            return self._labels.of(
                values, lambda new: np.array(list(map(self._label, new.tolist())))
            )

    def words(self, values: I32) -> tuple[I32, I32]:
        """How many words each value has, and how many of them are stop-words."""
        with self._lock:
            both = self._words.of(
                values, lambda new: np.array(list(map(self._count, new.tolist())))
            )
        return (both >> 32).astype(np.int32), (both & 0xFFFFFFFF).astype(np.int32)

    def _label(self, value: int) -> int:
        label = _LABEL.match(self._said[value])
        return NONE if label is None else self.names.add(label[1].casefold())

    def _count(self, value: int) -> int:
        words = words_of(self._said[value])
        return len(words) << 32 | sum(word in STOP_WORDS for word in words)
