"""Whether a regular expression repeats a part that matches one text in many ways, as ``(a+)+``.

On a text that almost matches, ``re`` tries all ways of all repetitions, which takes forever, and
nothing else runs meanwhile. Ways are counted by the expression's form: an open repeat (``*``,
``+``) has ``OPEN_WAYS``, the parts of a sequence multiply, branches add up. Possessive repeats
(``++``) and atomic groups (``(?>…)``) have one way.
"""

import re
from math import prod

from msgspec import Struct, field

OPEN_WAYS = 100
REPEATED_WAYS_MAX = 1_000_000
_TIMES_MAX = 64
"""Even two ways are too many if they are repeated as often."""

_TOKEN = re.compile(
    r"""
    (?P<literal>\\[^\w\s]|[^\\\[\](){}|?*+.^$])
    |(?P<repeat>(?:[*+?]|\{(?=[\d,])(?P<least>\d*)(?P<comma>,)?(?P<most>\d*)\})(?P<whole>\+)?\??)
    |(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
    |(?P<nothing>\(\?\#(?:\\.|[^)\\])*\)|\(\?[aiLmsux]+\))
    |(?P<reference>\(\?P=\w+\))
    |(?P<open>\((?:\?(?:P<\w+>|(?P<atomic>>|<?[=!])|\(\w+\)|[aiLmsux-]*:))?)
    |(?P<or>\|)
    |(?P<close>\))
    |(?P<other>\\?.)
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_VERBOSE = re.compile(
    r"(\(\?#(?:\\.|[^)\\])*\)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\s+|#[^\n]*", re.DOTALL
)


class ManyWays(ValueError):
    """A repeated part matches one text in too many ways."""


class _Group(Struct):
    """A group as far as it is read: the ways of its earlier branches, those of each part of the
    present one, and the character that each branch begins with (empty: any)."""

    atomic: bool = False
    branches: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    beginnings: list[str] = field(default_factory=list)

    def add(self, ways: int, character: str = "") -> None:
        if not self.parts:
            self.beginnings.append(character.casefold())
        self.parts.append(ways)

    def branch(self) -> None:
        if not self.parts:
            self.beginnings.append("")
        self.branches.append(prod(self.parts))
        self.parts = []

    def ways(self) -> int:
        self.branch()
        told_apart = "" not in self.beginnings and len({*self.beginnings}) == len(self.beginnings)
        return 1 if self.atomic else max(self.branches) if told_apart else sum(self.branches)


def check_cost(pattern: str) -> None:
    """Raises ManyWays. Pass a pattern that ``re`` compiles."""
    if re.compile(pattern).flags & re.VERBOSE:
        pattern = _IN_VERBOSE.sub(lambda found: found[1] or "", pattern)
    groups = [_Group()]
    for token in _TOKEN.finditer(pattern):
        here = groups[-1]
        match token.lastgroup:
            case "open":
                groups.append(_Group(atomic=token["atomic"] is not None))
            case "close" if len(groups) > 1:
                groups.pop()
                groups[-1].add(here.ways())
            case "or":
                here.branch()
            case "repeat" if here.parts:
                _repeat(here, token)
            case "literal":
                here.add(1, token[0][-1])
            case "nothing":
                pass
            case _:
                here.add(1)


def _repeat(group: _Group, token: re.Match[str]) -> None:
    """Apply a repeat to the last part of a group."""
    least, most = _times(token)
    ways, times = group.parts[-1], _TIMES_MAX if most is None else min(most, _TIMES_MAX)
    if ways > 1 and times > 1:
        ways **= times
        if ways > REPEATED_WAYS_MAX:
            raise ManyWays("repeats a part that can match one text in many ways, as in (a+)+")
    else:
        ways += OPEN_WAYS if most is None else min(most - least, OPEN_WAYS)
    group.parts[-1] = 1 if token["whole"] else ways
    if least == 0 and len(group.parts) == 1:
        group.beginnings[-1] = ""


def _times(token: re.Match[str]) -> tuple[int, int | None]:
    """The least and the most times of a repeat; None for any number."""
    sign = token[0][0]
    if sign != "{":
        return int(sign == "+"), 1 if sign == "?" else None
    least = int(token["least"] or 0)
    if not token["comma"]:
        return least, least
    return least, int(token["most"]) if token["most"] else None
