"""The form of a text that matching reads: compatibility forms, accents and look-alikes undone.

One way only: what comes out is for finding words and is never shown.
"""

from __future__ import annotations

import re
import unicodedata

from projections.invisible import seen

_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f]"
)
_LOOK_ALIKES = str.maketrans(
    "аеорсхуіјѕһԁԛԝкмтвнгпьёαοιντυρεκηχγωβμıɡɑⲟ’‘ʼ",
    "aeopcxyijshdqwkmtbhrnbeaoivtupeknxywbmigao'''",
)
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_SPACES = re.compile(r"[^\S\n]+")


def folded(text: str) -> str:
    """Lower case, compatibility forms replaced, invisible characters and accents gone,
    Cyrillic and Greek look-alikes as the Latin letters they resemble."""
    if text.isascii():
        return seen(text).lower()
    text = _MARKS.sub("", unicodedata.normalize("NFKD", seen(text))).lower()
    return text.translate(_LOOK_ALIKES)


def words(folded_text: str) -> str:
    """Words alone, one space between them; apostrophes vanish (``don't`` is ``dont``)."""
    return _BETWEEN_WORDS.sub(" ", folded_text.replace("'", ""))


def lines(folded_text: str) -> str:
    """The lines, runs of other white space made one space."""
    return _SPACES.sub(" ", folded_text)
