"""Unicode's normal forms in linear time.

``unicodedata`` sorts the marks of a letter by insertion: a hundred thousand take minutes. So a long
text is normalized in pieces, which end before a letter unless one has too many marks.
"""

import unicodedata
from collections.abc import Iterator
from typing import Literal, TypeAlias

PIECE = 256
"""Characters of a piece, and how many marks more it may have."""
Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]


def normal_form(form: Form, text: str) -> str:
    """The text in that form; marks of one letter are sorted within a piece."""
    if len(text) <= PIECE:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _pieces(form, text))


def _pieces(form: Form, text: str) -> Iterator[str]:
    start, length = 0, len(text)
    while start < length:
        end = min(start + PIECE, length)
        last = min(end + PIECE, length)
        while end < last and _is_joined(form, text[end]):
            end += 1
        yield text[start:end]
        start = end


def _is_joined(form: Form, character: str) -> bool:
    """Whether normalization may sort the character among those before it, or compose it with them:
    a mark, what decomposes into marks, a vowel or final of Korean."""
    first = unicodedata.normalize("NFKD" if "K" in form else "NFD", character)[0]
    return unicodedata.category(first)[0] == "M" or "\u1161" <= first <= "\u11c2"
