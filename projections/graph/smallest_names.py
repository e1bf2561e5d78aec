"""The first few of many names in order, without sorting all of them."""

from heapq import nsmallest

import numpy as np

from engramlog.projections.arrays import I32, I64
from engramlog.projections.interner import Interner

SAMPLE_NAMES = 1_000
SPARE_NAMES = 8


def first_names(interner: Interner, numbers: I32, after: str, wanted: int) -> list[str]:
    """The ``wanted`` smallest names of ``numbers`` after ``after``, in order. A sample gives a name
    with about enough names before it. One comparison each then skips the others, in the order of
    memory."""
    step = len(numbers) // SAMPLE_NAMES
    if step > 1:
        texts = interner.texts(numbers[::step].tolist())
        sample = sorted(text for text in texts if text > after)
        rank = SPARE_NAMES + 2 * wanted // step
        if rank < len(sample):
            names = sorted(interner.texts_between(numbers, after, sample[rank]))
            if len(names) >= wanted:
                return names[:wanted]
    texts = interner.texts(numbers.tolist())
    return nsmallest(wanted, [text for text in texts if text > after])


def with_most(interner: Interner, numbers: I32, counts: I64, wanted: int) -> I32:
    """The ``wanted`` of ``numbers`` with the highest counts. Of equal ones, the first by name:
    numbers tell in which order names came, those of hidden facts too."""
    if len(numbers) <= wanted:
        return numbers
    least = np.partition(counts, len(counts) - wanted)[len(counts) - wanted]
    more = numbers[counts > least]
    names = first_names(interner, numbers[counts == least], "", wanted - len(more))
    rest = [interner.numbered(name) for name in names]
    return np.concatenate([more, np.array(rest, dtype=np.int32)])
