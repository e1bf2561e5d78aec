"""This release's judgement of a text: a verdict when written, a clean form when served.

Pure functions of the text; the log never changes. A verdict is a tuple of stable codes. Codes in
``NOTICES`` name characters that ``clean`` removes without loss. All others are sentinels: the text
tries to command a model, or hides that it does. The modes ``strip``, ``block`` and ``quarantine``
change or hold back facts with a sentinel. Source: wire 1.8, recall guide "Content sanitizer".
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter

from msgspec import Struct

from engramlog.eventlog.kinds import FactAsserted, FactAttributes
from engramlog.projections.text.injection_patterns import (
    LINE_FAMILIES,
    STEM_CHARS,
    TEMPLATE_TOKEN,
    WORD_FAMILIES,
    WordFamily,
)
from engramlog.projections.text.invisible_characters import plain, strip
from engramlog.projections.text.lookalike_folding import ascii_words, folded, lines, words

RULESET = 1
"""Increase it whenever a verdict could differ: nodes then judge all their facts again."""

NOTICES = frozenset({"bidi_control", "control_characters", "zero_width"})
"""Codes that do not hold a fact back."""

IN_NAME = "name:"
"""Prefix of codes found in the entity, relation or source."""

VALUE_FLAG, NAME_FLAG, NOTED = 1, 2, 4
"""Bits of ``Verdict.flags``: a sentinel in the value, one in a name, any code at all."""

_TEXTUAL = frozenset({"string", "text", "ref"})
_BLOB_RUN = re.compile(r"[A-Za-z0-9+/_\-]{40,}={0,2}")
_BLOB_CHARS_MIN = 200
_REMEMBERED_CHARS_MAX = 256
_LONG_CHARS_MAX = 8_192
"""Fewer texts over this length are cached: 16 million characters in all."""
_NOTHING = frozenset[str]()
_BY_STEM = {
    stem: [family for family in WORD_FAMILIES if stem in family.stems]
    for stem in frozenset[str]().union(*(family.stems for family in WORD_FAMILIES))
}
_STEMS = frozenset(_BY_STEM)
_CUES = _STEMS.union(*(family.also for family in WORD_FAMILIES))
_stem_of = itemgetter(slice(STEM_CHARS))
_SIGNS = b'<[#`"=:'
"""Every family of ASCII lines needs one of these characters,"""
_UNSIGNED = bytes(set(range(128)) - set(_SIGNS))
_UNREMARKABLE = bytes({ord("\n"), *range(32, 127)} - set(_SIGNS))
_MARKS = ("<", "[", "#", "`", '"', "':", "' :", "=func", "data:", "javascript:", "system",
          "assistant", "developer", "human")  # fmt: skip
"""or one of these words."""
_SENTENCE = re.compile(r"[^.!?\n。！？]*[.!?\n。！？]+\s*|[^.!?\n。！？]+$")
_LINE_BREAK = re.compile(r"\s{1,4}")


def holds_back(codes: Iterable[str]) -> bool:
    """Whether any code, of a value or a name, is more than one of ``NOTICES``."""
    return any(code.removeprefix(IN_NAME) not in NOTICES for code in codes)


class Verdict(Struct, frozen=True):
    """Codes in alphabetical order, and their effect on serving (see ``VALUE_FLAG``)."""

    codes: tuple[str, ...]
    flags: int


CLEAN = Verdict((), 0)


def verdict_of(fact: FactAsserted) -> Verdict:
    """The verdict on a fact: its value if text, the free texts in its attributes, and its names."""
    text = fact.value.v if fact.value.type in _TEXTUAL else ""
    names = (fact.entity, fact.relation, fact.source)
    if fact.attributes is None and len(text) <= _REMEMBERED_CHARS_MAX:
        return _judged_before(text, *names)
    worded_too = () if fact.attributes is None else tuple(worded(fact.attributes))
    return _judge(text, *names, *worded_too)


def _judge(text: str, entity: str, relation: str, source: str, *besides: str) -> Verdict:
    """The verdict on a value, the names, and attributes' free texts."""
    in_value = scan(text)
    for each in besides:
        in_value |= scan(each)
    in_name = _in_names(entity, relation, source)
    if not in_value and not in_name:
        return CLEAN
    flags = NOTED
    if in_value - NOTICES:
        flags |= VALUE_FLAG
    if in_name - NOTICES:
        flags |= NAME_FLAG
    return Verdict(tuple(sorted(in_value | {IN_NAME + code for code in in_name})), flags)


# The projector, the memory image and the answer each judge a fact.
_judged_before = lru_cache(maxsize=16_384)(_judge)

FREE_TEXTS = ("original", "emotion_context", "keywords")
"""Attributes that hold free text; all others are labels and numbers."""


def worded(attributes: FactAttributes) -> list[str]:
    """The free texts among attributes."""
    return [getattr(attributes, name) for name in FREE_TEXTS]


def scan(text: str) -> frozenset[str]:
    """Codes of all findings in a text; time linear in its length."""
    if _REMEMBERED_CHARS_MAX < len(text) <= _LONG_CHARS_MAX:
        return _long_scanned_before(text)
    return _scan_text(text)


def _scan_text(text: str) -> frozenset[str]:
    visible, codes = text, _NOTHING
    if text.isascii() and not (data := text.encode()).translate(None, _UNREMARKABLE):
        found = ascii_words(data)
    else:
        visible, codes = strip(text)
        low = folded(text)
        found = words(low)
        if not low.isascii() or _has_mark(low):
            codes |= _in_lines(lines(low))
    cues = _CUES.intersection(map(_stem_of, found))
    if cues and (families := _candidate_families(cues)):
        codes |= _in_words(" ".join(found), families)
    if len(visible) >= _BLOB_CHARS_MIN and _has_blob(visible):
        codes |= {"encoded_blob"}
    return codes


_long_scanned_before = lru_cache(maxsize=2_048)(_scan_text)


def _in_names(entity: str, relation: str, source: str) -> frozenset[str]:
    """Codes of findings in names, one per line. Most names repeat and hold no cue that requires
    matching their lines."""
    of_entity, of_others = _name_cues(entity), _other_cues(relation, source)
    if (
        of_entity is None
        or of_others is None
        or len(entity) + len(relation) + len(source) + 2 >= _BLOB_CHARS_MIN
        or ((of_entity or of_others) and _candidate_families(of_entity | of_others))
    ):
        return _scan_text(f"{entity}\n{relation}\n{source}")
    return _NOTHING


@lru_cache(maxsize=16_384)
def _other_cues(relation: str, source: str) -> frozenset[str] | None:
    of_relation, of_source = _name_cues(relation), _name_cues(source)
    return None if of_relation is None or of_source is None else of_relation | of_source


@lru_cache(maxsize=16_384)
def _name_cues(name: str) -> frozenset[str] | None:
    """The cues of a name's words; None if the name needs the full scan."""
    low = name.lower()
    if not plain(name) or _has_mark(low):
        return None
    return _CUES.intersection(map(_stem_of, words(low)))


@lru_cache(maxsize=4_096)
def _candidate_families(cues: frozenset[str]) -> list[WordFamily]:
    """The families that match the cues of a text."""
    return [
        family
        for stem in cues & _STEMS
        for family in _BY_STEM[stem]
        if not cues.isdisjoint(family.also)
    ]


def _in_words(text: str, families: list[WordFamily]) -> frozenset[str]:
    return frozenset(
        family.code for family in families if re.search(family.pattern, text) is not None
    )


def _in_lines(text: str) -> frozenset[str]:
    return frozenset(
        family.code
        for family in LINE_FAMILIES
        if any(cue in text for cue in family.cues) and re.search(family.pattern, text) is not None
    )


def _has_mark(low: str) -> bool:
    """Whether an ASCII text holds a mark of a line family."""
    if not low.encode().translate(None, _UNSIGNED):
        return False
    for mark in _MARKS:  # noqa: SIM110 - a generator would take twice as long
        if mark in low:
            return True
    return False


def clean(text: str) -> str:
    """``text`` as served to models: without invisible characters outside its spelling, and with a
    space for every token that marks a turn in a chat template. Idempotent and never longer; a
    faultless text is returned as the same object."""
    return TEMPLATE_TOKEN.sub(" ", strip(text)[0])


def stripped(text: str) -> str:
    """``clean`` text without sentences that hold a sentinel; empty if one spans several sentences.
    Never longer."""
    text = clean(text)
    if not scan(text) - NOTICES:
        return text
    left = "".join(part for part in _SENTENCE.findall(text) if not scan(part) - NOTICES).strip()
    return "" if scan(left) - NOTICES else left


def _has_blob(text: str) -> bool:
    """Whether the text holds a long base64 run, perhaps broken into lines."""
    length = end = 0
    start = 0
    for run in _BLOB_RUN.finditer(text):
        gap = _LINE_BREAK.match(text, end)
        joined = length and gap is not None and gap.end() == run.start()
        length = length + len(run[0]) if joined else len(run[0])
        start = start if joined else run.start()
        end = run.end()
        if length >= _BLOB_CHARS_MIN and _looks_encoded(text[start:end]):
            return True
    return False


def _looks_encoded(run: str) -> bool:
    """Whether upper case, lower case and digits have the shares of random bytes."""
    head = run[: 4 * _BLOB_CHARS_MIN]
    shares = [sum(map(test, head)) / len(head) for test in (str.isupper, str.islower, str.isdigit)]
    return shares[0] > 0.1 and shares[1] > 0.1 and shares[2] > 0.03
