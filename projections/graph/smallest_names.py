"""The first few of many names in order, without sorting all of them."""

from heapq import nsmallest

from engramlog.projections.arrays import I32
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
