"""A question typed in haste, as one writes it with care: names with capitals, and a question mark.

"where did melanie go" found less than "Where did Melanie go?": what begins with a capital may be a
name, and the embedding model tells questions by their mark. A word with a capital counts as a name
only where the memory has it as one.
"""

import re

from engramlog.projections.text.stop_words import STOP_WORDS

_I = re.compile(r"\bI\b")
_WORD = re.compile(r"(?<![\w/.@#-])[^\W\d_]+(?![\w/@#])")
_ASKS = re.compile(
    r"\W*(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had"
    r"|can|could|will|would|should)\b",
    re.IGNORECASE,
)
_ENDS = ("?", ".", "!", ":", ";", "…")


def spelled(query: str) -> str:
    """The question with a capital at each word that is no stop-word, if none but the first word and
    "I" has one; and with a mark, if it asks and has none."""
    return _with_mark(_with_capitals(query.strip()))


def _with_capitals(query: str) -> str:
    rest = _I.sub("i", query[1:])
    if rest != rest.lower():
        return query
    return _WORD.sub(_capitalised, query)


def _capitalised(word: re.Match[str]) -> str:
    text = word[0]
    first = text[0].upper()
    return text if text in STOP_WORDS or len(first) != 1 else first + text[1:]


def _with_mark(query: str) -> str:
    asks = _ASKS.match(query) and "?" not in query and not query.endswith(_ENDS)
    return f"{query}?" if asks else query
