"""The two sides of a conflict between facts that are valid at different times."""

from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.writing.decide.facts.resolving import DisputeSide, first_overlap
from tests.worlds.counted_work import line_work

_times = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8)


def sides(value: str, times: list[tuple[int, int]]) -> list[DisputeSide]:
    return [
        DisputeSide(
            f"{value}{number}", "user:x", "memory:role", "local", None, "string", value, "content",
            start, end, number,
        )
        for number, (start, end) in enumerate(times)
    ]  # fmt: skip


@given(_times, _times)
def test_the_first_pair_that_overlaps(
    mine: list[tuple[int, int]], rivals: list[tuple[int, int]]
) -> None:
    ours, theirs = sides("a", mine), sides("b", rivals)
    pairs = [(rival, own) for own in ours for rival in theirs if own.overlaps(rival)]
    assert first_overlap(ours, theirs) == (pairs[0] if pairs else None)


def test_not_all_pairs_are_compared() -> None:
    def lines(size: int) -> int:
        ours = sides("a", [(2 * n, 2 * n + 1) for n in range(size)])
        theirs = sides("b", [(2 * n + 1, 2 * n + 2) for n in range(size)])
        return line_work(lambda: first_overlap(ours, theirs))

    assert lines(200) < 2.5 * lines(100)
