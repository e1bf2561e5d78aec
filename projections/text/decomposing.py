"""Canonical and compatibility decompositions in linear time.

``unicodedata`` sorts the marks of a letter by insertion: a hundred thousand take minutes. So a long
text is decomposed in pieces, which end before a letter unless one has too many marks.
"""

import unicodedata
from typing import Literal

PIECE = 256
"""Characters of a piece, and how many marks more it may have."""


def decomposed(form: Literal["NFD", "NFKD"], text: str) -> str:
    """The text in that form; marks of one letter are sorted within a piece."""
    if len(text) <= PIECE:
        return unicodedata.normalize(form, text)
    pieces: list[str] = []
    start, length = 0, len(text)
    while start < length:
        end = min(start + PIECE, length)
        last = min(end + PIECE, length)
        while end < last and _is_mark(form, text[end]):
            end += 1
        pieces.append(unicodedata.normalize(form, text[start:end]))
        start = end
    return "".join(pieces)


def _is_mark(form: Literal["NFD", "NFKD"], character: str) -> bool:
    """Whether normalization sorts the character among the marks before it; some letters decompose
    into marks."""
    return bool(unicodedata.combining(unicodedata.normalize(form, character)[0]))
