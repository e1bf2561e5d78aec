"""Invisible characters: which a text needs, which are noise, and which hide text.

Joiners belong to the spelling of many scripts and of emoji, zero-width spaces to that of Khmer,
Thai, Lao and Myanmar, and a variation selector to the character before it; these stay. All others
are removed: bidirectional controls and marks (they change the order on screen and no letter),
zero-width characters elsewhere, tag characters outside the three flags that Unicode recommends,
selectors without a base, and control characters. Follows UAX #31 (joiners), UTS #51 (emoji
sequences) and UAX #9 (bidirectional controls).
"""

import json
import re

_NEVER = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb]+"
)
"""Characters that are always removed."""
_SUSPECT = re.compile("[\u200b-\u200d\ufe00-\ufe0f\U000e0000-\U000e0fff]")
"""Characters that are allowed in some contexts."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""Every character without a glyph: matching ignores all of them."""

_BLANK = re.compile("[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0]")
"""Characters without a glyph that some spellings need in texts, and no name does."""

_ZWSP, _ZWNJ, _ZWJ = 0x200B, 0x200C, 0x200D
_BLACK_FLAG = 0x1F3F4
_FLAG_TAGS = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)

_Ranges = tuple[tuple[int, int], ...]
_JOINING: _Ranges = (
    (0x0600, 0x08FF), (0x0900, 0x0DFF), (0x0F00, 0x109F), (0x1780, 0x18AF), (0x1A20, 0x1BFF),
    (0xA840, 0xA87F), (0xA8E0, 0xA8FF), (0xA980, 0xA9FF), (0xAA60, 0xAA7F), (0xABC0, 0xABFF),
    (0xFB50, 0xFDFF), (0xFE70, 0xFEFE), (0x10A00, 0x10AFF), (0x10D00, 0x10FFF),
    (0x11000, 0x11FFF), (0x1E900, 0x1E95F),
)  # fmt: skip
"""Scripts whose letters join or form clusters, so that joiners are part of the spelling."""
_UNSPACED: _Ranges = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1A20, 0x1AAF))
"""Scripts written without spaces, whose words a zero-width space may divide."""
_PICTOGRAPHS: _Ranges = (
    (0xA9, 0xA9), (0xAE, 0xAE), (0x203C, 0x203C), (0x2049, 0x2049), (0x2122, 0x2122),
    (0x2139, 0x2139), (0x2194, 0x21AA), (0x231A, 0x23FF), (0x24C2, 0x24C2), (0x25AA, 0x25FE),
    (0x2600, 0x27BF), (0x2934, 0x2935), (0x2B05, 0x2B55), (0x3030, 0x303D), (0x3297, 0x3299),
    (0x1F000, 0x1FAFF),
)  # fmt: skip
_IDEOGRAPHS: _Ranges = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_SELECTORS: _Ranges = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
_KINDS: tuple[tuple[int, int, str], ...] = (
    (0x00, 0x9F, "control_characters"),
    (0x061C, 0x061C, "bidi_control"),
    (0x200B, 0x200D, "zero_width"),
    (0x200E, 0x202C, "bidi_control"),
    (0x202D, 0x202E, "bidi_override"),
    (0x2060, 0x2065, "zero_width"),
    (0x2066, 0x206F, "bidi_control"),
    (0xFE00, 0xFE0F, "variation_smuggling"),
    (0xFEFF, 0xFFFB, "zero_width"),
    (0xE0100, 0xE01EF, "variation_smuggling"),
    (0xE0000, 0xE0FFF, "tag_characters"),
)
"""The code for each removed character; the first range that holds it counts."""


def strip(text: str) -> tuple[str, frozenset[str]]:
    """``text`` without characters that only hide, and codes of what was found. Idempotent and never
    longer; a text without them is returned unchanged."""
    if plain(text):
        return text, frozenset()
    bare = _NEVER.sub("", text)
    if len(bare) == len(text) and _SUSPECT.search(text) is None:
        return text, frozenset()
    gone = {_kind(ord(each)) for each in set("".join(_NEVER.findall(text)))}
    left, out_of_place = _without_misplaced(bare)
    codes = frozenset(gone | out_of_place)
    return left if codes else text, codes


def _without_misplaced(text: str) -> tuple[str, set[str]]:
    """The text without misplaced suspects, and their codes."""
    kept: list[str] = []
    codes: set[str] = set()
    after = 0
    for found in _SUSPECT.finditer(text):
        at = found.start()
        if at < after:  # inside a flag
            continue
        if at > after:
            kept.append(text[after:at])
        before = ord(kept[-1][-1]) if kept else 0
        flag = _flag_at(text, at) if before == _BLACK_FLAG else ""
        after = at + max(1, len(flag))
        if flag or _belongs(text, at, before):
            kept.append(text[at:after])
        else:
            codes.add(_kind(ord(text[at])))
    kept.append(text[after:])
    return "".join(kept), codes


def seen(text: str) -> str:
    """``text`` for matching: without characters that have no glyph."""
    return text if plain(text) else _UNSEEN.sub("", text)


def looks_like_another(name: str) -> bool:
    """Whether a name has characters without a glyph that are not part of its spelling: it looks
    like the name without them."""
    return not plain(name) and (strip(name)[0] != name or _BLANK.search(name) is not None)


def spelled_out(text: str) -> str:
    """``text`` with JSON's escapes for characters without a glyph."""
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def plain(text: str) -> bool:
    """Whether a text is only printable ASCII and line ends: a quick test, true for nearly all."""
    return text.isascii() and (text.isprintable() or text.replace("\n", " ").isprintable())


def _kind(number: int) -> str:
    return next(kind for low, high, kind in _KINDS if low <= number <= high)


def _belongs(text: str, at: int, before: int) -> bool:
    """Whether a character is part of the spelling after ``before``, the last kept one."""
    number = ord(text[at])
    following = ord(text[at + 1]) if at + 1 < len(text) else 0
    if number == _ZWSP:
        return _within(before, _UNSPACED) and _within(following, _UNSPACED)
    if number in (_ZWNJ, _ZWJ):
        if _within(before, _JOINING):
            return True
        emoji = _within(before, _PICTOGRAPHS) or before in (0xFE0F, 0xE007F)
        return number == _ZWJ and emoji and _within(following, _PICTOGRAPHS)
    if _within(number, _SELECTORS):
        return _selects(number, before)
    return False


def _selects(number: int, before: int) -> bool:
    """Whether a variation selector follows a character with variants: emoji and key caps (text and
    emoji style), ideographs, other scripts and symbols."""
    if _within(before, _SELECTORS):
        return False
    if number > 0xFFFF:
        return _within(before, _IDEOGRAPHS)
    if number >= 0xFE0E and (chr(before).isdigit() or before in (0x23, 0x2A)):
        return True
    return before > 0xA8


def _flag_at(text: str, at: int) -> str:
    return next((tags for tags in _FLAG_TAGS if text.startswith(tags, at)), "")


def _within(number: int, ranges: _Ranges) -> bool:
    return any(low <= number <= high for low, high in ranges)
