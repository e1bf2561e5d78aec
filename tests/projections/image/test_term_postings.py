"""The posting lists of terms, while an erasure drops facts from them."""

from types import TracebackType

from engramlog.projections.columns.term_postings import COUNTED_FROM, TermPostings


class ErasingFirst:
    """A lock before which, the first time, an erasure drops a slot: as if the thread that asks had
    waited for it."""

    def __init__(self, postings: TermPostings, slot: int) -> None:
        self._lock = postings._lock
        self._postings = postings
        self._slots = [slot]

    def __enter__(self) -> None:
        if self._slots:
            self._postings.drop([self._slots.pop()])
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._lock.release()


def test_a_question_during_an_erasure_leaves_no_counts_of_the_list_before_it() -> None:
    postings, count = TermPostings(), 2 * COUNTED_FROM
    for slot in range(count):
        postings.add("tea", slot)
    postings._lock = ErasingFirst(postings, 7)  # pyright: ignore[reportAttributeAccessIssue]
    postings.counted("tea", count)
    postings.add("tea", count)
    kept = [slot for slot in range(count + 1) if slot != 7]
    assert postings.counted("tea", count + 1)[0].tolist() == kept


def test_a_list_that_an_erasure_empties_meanwhile_has_no_facts() -> None:
    postings, count = TermPostings(), COUNTED_FROM + 1
    for _ in range(count):
        postings.add("tea", 0)
    postings._lock = ErasingFirst(postings, 0)  # pyright: ignore[reportAttributeAccessIssue]
    assert postings.counted("tea", 1)[0].tolist() == []
