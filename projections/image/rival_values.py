"""Which facts of a key contradict another: another value, and both valid at some time."""

from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter

_NEVER = -(2**63)
Validity = tuple[int, int, int]
"""A fact of the key: valid from and until, in microseconds, and the number of its value."""


def have_rivals(asked: Iterable[Validity], siblings: Iterable[Validity]) -> list[bool]:
    """For each of ``asked``, whether one of ``siblings`` has another value and overlaps it.

    Among the siblings that begin before its end, one with another value must end after its
    beginning. So two numbers per sibling suffice instead of all pairs: the latest end so far, and
    the latest end of another value than that one's.
    """
    starts: list[int] = []
    latest: list[tuple[int | None, int, int]] = []
    value, end, other_end = None, _NEVER, _NEVER
    for start, until, of_value in sorted(siblings, key=itemgetter(0)):
        if of_value == value:
            end = max(end, until)
        elif until > end:
            value, end, other_end = of_value, until, end
        else:
            other_end = max(other_end, until)
        starts.append(start)
        latest.append((value, end, other_end))
    found: list[bool] = []
    for start, until, of_value in asked:
        before = bisect_left(starts, until)
        value, end, other_end = latest[before - 1] if before else (None, _NEVER, _NEVER)
        found.append((other_end if value == of_value else end) > start)
    return found
