"""English words that say almost nothing about a text's subject."""

import re

_STOP_TEXT = """
    a about am an and any are as at be been being but by can could d did do does doing for
    from had has have having he her hers him his how i if in into is it its just ll m me my
    of on or our ours re s she should so some such t than that the their theirs them then
    there these they this those to too us ve very was we were what when where which while who
    whom whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
_WORD_EDGE = r"[\w\u0300-\u036f]"
_STOP_WORD = re.compile(
    rf"(?<!{_WORD_EDGE})(?:{'|'.join(sorted(STOP_WORDS))})(?!{_WORD_EDGE})", re.IGNORECASE
)


def without_stop_words(text: str) -> str:
    """The text with spaces in place of stop-words; blank if it has no other words."""
    return _STOP_WORD.sub(" ", text)
