"""Words of other scripts than the Latin one, made ready for a tokenizer that splits at spaces.

Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer have no spaces, or add particles to words:
they become letters, or overlapping pairs of letters. Arabic, Hebrew, Cyrillic, Greek and Devanagari
words lose their usual prefixes and endings. All lose case, compatibility forms, and marks that
writers often omit. Latin script stays as it is, but for ``ß`` and the dotless ``ı``.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from engramlog.projections.text.normal_forms import normal_form

_OTHER = (
    "[ßẞı\u0300-\u1dff\u1f00-\u1fff\u20d0-\u20ff\u2c00-\u2c5f\u2c80-\u2dff\u2e80-\ua71f"
    "\ua800-\uffef\U00010000-\U0001efff\U00020000-\U000323af\U000e0100-\U000e01ef]+"
    "(?:(?<=[\u0600-\u0dff])[\u200c\u200d]+[\u0600-\u0dff]+)*"
)
"""What this module reads. Joiners inside Arabic and Indic words belong to them."""
_OMITTED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u08d3-\u08ff"
    "\u093c\u09bc\u0a3c\u0abc\u0b3c\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\ufe00-\ufe0d"
    "\ufdfa\ufe20-\ufe2f\U000e0100-\U000e01ef]+"
)
"""Accents, vowel points, tatweel, nukta, joiners, variation selectors, and a ligature of eighteen
letters."""
_PARTED = re.compile("[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[\u3041-\u30ff][\u3099\u309a]")
"""Letters of Korean and Japanese, decomposed."""
_ZEROS = "٠۰०০੦૦୦௦౦೦൦๐໐༠၀០"
_SAME = str.maketrans(
    {ord(zero) + n: str(n) for zero in _ZEROS for n in range(10)}
    | dict(zip("ıىیةکँ", "iييهكं", strict=True))
    | dict.fromkeys("\u20dd\u20de\u20e0\u20e3\ufe0e\ufe0f", " ")
)
"""Digits, and letters that writers exchange. Frames of digits and emoji end a word."""
_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059"
    "\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d"
    "\u17b4-\u17d3\u17dd\u3099\u309a"
)
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u1049\u1050-\u109d"
    "\u1780-\u17d3\u17dc\u17dd\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U000323af"
)
WORD = re.compile(f"(?:[^\\W_]|[\u0900-\u0963\u0971-\u0df3{_MARKS}])+")
"""A run of letters, digits and their marks."""
_LONE = f"[{_UNSPACED}]"
_LETTER = re.compile(f".[{_MARKS}]*")
_WORDS = (
    f"(?P<unspaced>[{_UNSPACED}]+)|(?P<arabic>[\u0620-\u06d3]+)|(?P<hebrew>[\u05d0-\u05ea]+)"
    "|(?P<cyrillic>[\u0430-\u052f]+)|(?P<greek>[\u03ac-\u03ce]+)|(?P<devanagari>[\u0900-\u0963]+)"
)
_AFFIXES = {
    "arabic": (
        re.compile("^(?:و?(?:[بكف]?ال|لل)(?=..)|و(?=...))"),
        re.compile("(?<=..)(?:ان|ات|ون|ين|يه|[هي])?(?:ها|هم|نا|كم)?$"),
    ),
    "hebrew": (re.compile("^[והבלכמש]+(?=...)"), re.compile("(?<=...)(?:ים|ות)$")),
    "cyrillic": (
        re.compile(
            "(?<=...)(?:и?[аяыи]ми|[оеу]му|[оеа]го|и?[аяыи]х|и?[еоаяыи]м|[ое]в"
            "|[аяоеиыую]{0,2}[аяоеиыуюьэ])$"
        ),
    ),
    "greek": (re.compile("(?<=...)(?:ου[σν]?|ων|[οεηαι]σ|ο[ιν]|ει|αι|[ηα]ν|[ηαοιεωυ])$"),),
    "devanagari": (re.compile("(?<=..)(?:ियाँ|ियां|ियों|[\u093e-\u094c\u0902]{1,3})$"),),
}
"""What a word loses: Arabic as in light10, the others what most cases and numbers add."""


def mostly_latin(text: str) -> bool:
    """Whether at least half of a text's letters are of the Latin script."""
    if text.isascii():
        return True
    letters = list(filter(str.isalpha, text))
    latin = sum(each < "\u0250" or "\u1e00" <= each <= "\u1eff" for each in letters)
    return 2 * latin >= len(letters)


def is_unspaced(word: str) -> bool:
    """Whether a word of ``in_letters`` is one letter of a script without spaces."""
    return not word.isascii() and _compiled(_LONE).match(word) is not None


def in_pairs(text: str) -> str:
    """The text for full-text search: words of scripts without spaces become pairs of letters."""
    return _turned(text, _pairs)


def in_letters(text: str) -> str:
    """The text for finding names: words of scripts without spaces become single letters, because a
    sentence may hold a name letter by letter."""
    return _turned(text, lambda run: f" {' '.join(_LETTER.findall(run))} ")


def _turned(text: str, unspaced: Callable[[str], str]) -> str:
    if text.isascii():
        return text
    return _compiled(_OTHER).sub(lambda run: _read(run[0], unspaced), text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The compiled pattern. Patterns with letters beyond 16 bits take milliseconds, so each is
    compiled for the first text that needs it."""
    return re.compile(pattern)


def _read(run: str, unspaced: Callable[[str], str]) -> str:
    bare = normal_form("NFKD", _OMITTED.sub("", run))
    plain = _OMITTED.sub("", bare).casefold().translate(_SAME)

    def word(match: re.Match[str]) -> str:
        text, script = match[0], match.lastgroup or ""
        if script not in _AFFIXES:
            return unspaced(text)
        for affix in _AFFIXES[script]:  # the stem that one leaves must be long enough for the next
            text = affix.sub("", text)
        return text

    composed = _PARTED.sub(lambda parts: unicodedata.normalize("NFC", parts[0]), plain)
    return _compiled(_WORDS).sub(word, composed)


def _pairs(run: str) -> str:
    letters = _LETTER.findall(run)
    pairs = [one + other for one, other in pairwise(letters)] or letters
    return f" {' '.join(pairs)} "
