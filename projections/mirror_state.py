"""What the mirror holds: columns, numbers of names, slot lists and small histories."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable

import numpy as np

from eventlog.kinds import FactAttributes
from projections.arrays import Bool
from projections.columns import Columns, Postings
from projections.entity_names import EntityNames
from projections.fact_texts import FactTexts
from projections.flagging import FlagColumn
from projections.hiding import Hiding
from projections.histories import AccessHistory, DecayHistory, SetValuedHistory
from projections.interner import Interner
from projections.lexicon import open_tokenizer
from projections.recall_times import RecallTimes
from projections.remembered import Remembered
from projections.signatures import Signatures, signers
from projections.term_postings import TermPostings
from projections.trust_history import TrustHistory

ANSWERS_KEPT_MAX = 8
"""Sets of survivors that recall remembers; one of a million facts takes 5 MB."""


class SlotLists:
    """Which slots belong to what."""

    def __init__(self) -> None:
        self.by_entity = Postings()
        self.by_key = Postings()
        self.by_object = Postings()
        self.by_source = Postings()
        self.by_term = TermPostings()
        self.by_cid = Postings()
        self.reserved = Postings()
        """Slots of facts about the protocol's own records, under ``""``."""
        self.summaries = Postings()
        """Slots of the paragraphs of summaries, under ``""``."""


class MirrorState(SlotLists):
    """The storage that a ``View`` reads and ``Mirror`` fills.

    ``published`` slots and ``position`` are what readers may see.
    """

    signatures: dict[int, Signatures]
    """By version: signatures of what is said, made when they are first asked for."""
    texts: FactTexts
    """What facts are found by letter by letter, made when it is first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = Columns()
        self.entities = Interner()
        self.names = EntityNames(self.entities)
        self.relations = Interner()
        self.sources = Interner()
        self.gardens = Interner()
        self.origins = Interner()
        self.quarantines: set[int] = set()
        """Numbers of the gardens whose facts wait for a review."""
        self.reviews: dict[int, tuple[int, str]] = {}
        """By slot of a quarantined fact: position and decision of its review."""
        self.attested: array[int] = array("i")
        """Slots of facts with a source's own signature, ascending."""
        self.value_numbers: dict[tuple[str, str], int] = {}
        self.said: list[str] = []
        """By value number: what the lexicon reads of the value."""
        self.key_numbers: dict[tuple[int, int, int, int], int] = {}
        self.crowded: Bool = np.zeros(1024, dtype=np.bool_)
        """By key number: whether the key has more than one fact."""
        self.erased: set[str] = set()
        self.slots: int = 0
        """Slots given out; those of erased facts are not given again."""
        self.slot_of: dict[str, int] = {}
        self.passages: dict[int, str] = {}
        """By slot of such a paragraph: its text."""
        self.parents: dict[int, tuple[int, ...]] = {}
        """By slot of a derived fact: ``cid_number`` of each thing it was derived from."""
        self.attributes: dict[int, list[tuple[int, FactAttributes]]] = {}
        """By slot of a fact that has any: what they are, from which position on, ascending."""
        self.confidential = False
        """Whether any fact was ever classified so that only some may read it."""
        self.decay = DecayHistory()
        self.trust = TrustHistory(self.sources)
        self.accesses = AccessHistory()
        self.recall_times = RecallTimes()
        self.cited = AccessHistory()
        self.rejected = AccessHistory()
        self.set_valued = SetValuedHistory()
        self.flags = FlagColumn()
        self.notes: dict[int, int] = {}
        """By slot of a resolution's note: the number of the entity that it is about."""
        self.hiding = Hiding({}, self.entities, self.notes)
        """What tombstones hide now; replaced whole when that changes."""
        self.remembered = Remembered(ANSWERS_KEPT_MAX)
        self._tokenizers = threading.local()
        self.forget_derived()
        self.published = self.position = 0

    def forget_derived(self) -> None:
        """Drop what was made of texts for questions alone; it is made again when asked for."""
        self.signatures = {n: Signatures(sign) for n, sign in signers(self.tokenize).items()}
        self.texts = FactTexts(self.entities, self.relations, self.said, self.attributes)

    def tokenize(self, text: str) -> list[str]:
        """Terms of a text, as the lexicon cuts it."""
        tokenizer: Callable[[str], list[str]] | None
        tokenizer = getattr(self._tokenizers, "tokenize", None)
        if tokenizer is None:
            tokenizer = self._tokenizers.tokenize = open_tokenizer()
        return tokenizer(text)
