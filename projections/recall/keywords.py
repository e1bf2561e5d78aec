"""Keywords for abmind's searches: phrases, and the question in the user's own words (its seed,
"Sf"; the newer version's raw messages).

A message that comes as one entry of several words is not a phrase: no fact holds a whole question
word by word. It is split into its terms.
"""

import re
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.text.normal_forms import normal_form
from engramlog.projections.text.stop_words import STOP_WORDS

WINDOW_FROM = 7
"""Words with at least this many letters are also searched in pieces."""
WINDOW_MIN = 4

_OPERATOR = re.compile(r"\b(?:OR|AND)\b")
_ANY_OPERATOR = re.compile(r"\b(?:OR|AND|NOT)\b")
_NOT = re.compile(r"\bNOT\b")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SWAPPED = str.maketrans("zyZY", "yzYZ")


class Cutting(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a message is split into terms.

    Attributes:
        terms_max: how many terms at most, the first ones.
        letters_min: shorter words are dropped.
        stop_words: keep stop-words even beside other words.
    """

    terms_max: Annotated[int, Meta(ge=1, le=64)] = 32
    letters_min: Annotated[int, Meta(ge=1, le=10)] = 1
    stop_words: bool = False


class Keywords(Struct, frozen=True):
    """``phrases`` are searched as they are, ``terms`` one by one; ``raw`` if both come from one
    message. ``original`` is only for letter-by-letter searches."""

    phrases: tuple[str, ...]
    terms: tuple[str, ...]
    original: str
    raw: bool

    @property
    def wanted(self) -> tuple[str, ...]:
        """The words that a fact must hold to match every keyword."""
        return self.terms if self.raw else self.phrases

    @property
    def probes(self) -> tuple[str, ...]:
        """The pieces for letter-by-letter searches, in order."""
        words = self.wanted
        return tuple(dict.fromkeys((*words, self.original) if self.original else words))


def keywords_of(request: RecallRequest, cutting: Cutting) -> Keywords:
    """The keywords of a request, or those of its query if it has none."""
    entries = entries_of(request)
    raw = len(entries) == 1 and len(entries[0].split()) > 1
    phrases = tuple(dict.fromkeys(entries))
    terms = tuple(significant_terms(phrases, cutting))
    return Keywords(phrases, terms, own_words(request), raw)


def entries_of(request: RecallRequest) -> list[str]:
    """The entries of a request, or its query as the only one; an explicit one's are unchanged."""
    given = request.keywords or (request.query,)
    if request.intent == "explicit":
        return [entry for entry in given if entry.strip()]
    return normalised(given)


def own_words(request: RecallRequest) -> str:
    """The question in the caller's own words, for letter-by-letter searches."""
    if request.intent == "explicit":
        return request.original.strip()
    return _ANY_OPERATOR.sub(" ", request.original).replace('"', "").strip()


def normalised(entries: Iterable[str]) -> list[str]:
    """Entries as phrases. A single entry with operators gives the phrases between them."""
    cleaned = list(entries)
    if len(cleaned) == 1 and _OPERATOR.search(cleaned[0]):
        parts = (_NOT.sub(" ", part) for part in _OPERATOR.split(cleaned[0]))
        cleaned = [part.strip().strip("\"'").strip() for part in parts]
    return [entry for entry in cleaned if entry.strip()]


def words_of(texts: Iterable[str]) -> list[str]:
    """The words of texts, in order; an apostrophe or a hyphen inside a word is part of it."""
    return [word for text in texts for word in _WORD.findall(normal_form("NFKC", text))]


def significant_terms(texts: Iterable[str], cutting: Cutting) -> list[str]:
    """Distinct words, ignoring case, in order."""
    words: dict[str, str] = {}
    for word in words_of(texts):
        if len(word) >= cutting.letters_min:
            words.setdefault(word.casefold(), word)
    if not cutting.stop_words:
        words = {key: word for key, word in words.items() if key not in STOP_WORDS} or words
    return list(words.values())[: cutting.terms_max]


def swapped(piece: str) -> str:
    """The word as typed on the other kind of keyboard: z for y, y for z."""
    return piece.translate(_SWAPPED)


def windows(piece: str) -> list[str]:
    """Overlapping pieces of a long word; some survive a typing error."""
    if len(piece) < WINDOW_FROM:
        return []
    size = max(len(piece) // 2, WINDOW_MIN)
    step = max(1, size // 2)
    return [piece[at : at + size] for at in range(0, len(piece) - size + 1, step)]
