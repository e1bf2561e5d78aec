"""How much of a text only asks: a question states nothing to recall."""

import re

_ASKING = "?\uff1f\u061f\u037e"
_STATING = ".!\u3002\uff01\n"
_SENTENCE = re.compile(rf"[^{_ASKING}{_STATING}]*[{_ASKING}{_STATING}]*")


def asking_percent(text: str) -> int:
    """The share of a text's characters that lie in sentences ending in a question mark, in
    whole percent. Sentences end at full stops, question marks, exclamation marks (the
    full-width and Arabic ones too) and line ends."""
    if "?" not in text and (text.isascii() or not any(mark in text for mark in _ASKING)):
        return 0
    asked = sum(
        len(sentence)
        for sentence in _SENTENCE.findall(text)
        if sentence.rstrip("\n").endswith(tuple(_ASKING))
    )
    return round(100 * asked / len(text))
