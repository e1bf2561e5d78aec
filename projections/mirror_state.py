"""What the mirror holds: columns, numbers of names, slot lists and small histories."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from projections.arrays import Bool
from projections.columns import Columns, Postings
from projections.histories import AccessHistory, DecayHistory, SetValuedHistory, TrustHistory
from projections.interner import Interner
from projections.lexicon import open_tokenizer


class MirrorState:
    """The storage that a ``View`` reads and ``Mirror`` fills.

    ``published`` slots and ``position`` are what readers may see.
    """

    def __init__(self) -> None:
        self.columns = Columns()
        self.entities = Interner()
        self.relations = Interner()
        self.sources = Interner()
        self.gardens = Interner()
        self.value_numbers: dict[tuple[str, str], int] = {}
        self.key_numbers: dict[tuple[int, int, int, int], int] = {}
        self.crowded: Bool = np.zeros(1024, dtype=np.bool_)
        """By key number: whether the key has more than one fact."""
        self.by_entity = Postings()
        self.by_key = Postings()
        self.by_object = Postings()
        self.by_source = Postings()
        self.by_term = Postings()
        self.slot_of: dict[str, int] = {}
        self.by_cid = Postings()
        self.decay = DecayHistory()
        self.trust = TrustHistory(self.sources)
        self.accesses = AccessHistory()
        self.set_valued = SetValuedHistory()
        self._tokenizers = threading.local()
        self.published = 0
        self.position = 0

    def tokenize(self, text: str) -> list[str]:
        """Terms of a text, as the lexicon cuts it."""
        tokenizer: Callable[[str], list[str]] | None
        tokenizer = getattr(self._tokenizers, "tokenize", None)
        if tokenizer is None:
            tokenizer = self._tokenizers.tokenize = open_tokenizer()
        return tokenizer(text)
