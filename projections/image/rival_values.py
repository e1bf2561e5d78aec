"""Which facts of a key are valid at some time together with another value, found without comparing
all pairs. Any pair may count, also of facts that end before they begin, which a peer may send.
"""

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool

_NEVER = -(2**63)


class Validity(Struct, frozen=True):
    """Facts of one key: valid from and until, in microseconds, and the number of each value."""

    starts: I64
    ends: I64
    values: I32 | I64

    def only(self, kept: Bool | I64) -> "Validity":
        return Validity(self.starts[kept], self.ends[kept], self.values[kept])


def have_rivals(asked: Validity, siblings: Validity) -> Bool:
    """For each of ``asked``, whether one of ``siblings`` has another value and overlaps it.

    Among the siblings that begin before its end, one with another value must end after its
    beginning. So two numbers per sibling suffice instead of all pairs: the latest end so far, and
    the latest end of another value than that one's.
    """
    if not len(siblings.starts):
        return np.zeros(len(asked.starts), dtype=np.bool_)
    siblings = siblings.only(np.argsort(siblings.starts, kind="stable"))
    ends, values = siblings.ends, siblings.values
    latest = np.maximum.accumulate(ends)
    before = np.append(_NEVER, latest[:-1])
    first = np.append(True, ends[1:] > latest[:-1])
    owner = values[np.maximum.accumulate(np.where(first, np.arange(len(ends)), 0))]
    others = np.where(values != owner, ends, _NEVER)
    turned = np.append(False, owner[1:] != owner[:-1])  # all ends of before are of other values
    other = np.maximum.accumulate(np.where(turned, np.maximum(others, before), others))
    last = siblings.starts.searchsorted(asked.ends) - 1
    rival: Bool = np.where(owner[last] == asked.values, other[last], latest[last]) > asked.starts
    return rival & (last >= 0)


def highest_beside(asked: Validity, siblings: Validity, ranks: I64) -> I64:
    """For each of ``asked``, the highest of the siblings' ``ranks`` (0 and more) among those that
    overlap it; -1 without any.

    Siblings join in the order of their beginnings, before the facts that end later. A tree holds
    the highest rank by end: entry n covers as many ends as n's lowest bit.
    """
    ends = np.unique(siblings.ends)
    size = len(ends)
    # Counted from the latest end, so that a sum over the first entries has those that end later.
    places: list[int] = (size - ends.searchsorted(siblings.ends)).tolist()
    later: list[int] = (size - ends.searchsorted(asked.starts, side="right")).tolist()
    joining: list[int] = np.argsort(siblings.starts, kind="stable").tolist()
    joined: list[int] = siblings.starts[joining].searchsorted(asked.ends).tolist()
    of_sibling: list[int] = ranks.tolist()
    tree = [-1] * (size + 1)
    found: I64 = np.full(len(asked.starts), -1, dtype=np.int64)
    count = 0
    ending: list[int] = np.argsort(asked.ends, kind="stable").tolist()
    for index in ending:
        while count < joined[index]:
            rank, place = of_sibling[joining[count]], places[joining[count]]
            while place <= size and tree[place] < rank:
                tree[place] = rank
                place += place & -place
            count += 1
        place, highest = later[index], -1
        while place:
            highest = max(highest, tree[place])
            place -= place & -place
        found[index] = highest
    return found
