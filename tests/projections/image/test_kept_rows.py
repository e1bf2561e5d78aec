"""Cached rows: found again, bounded, and dropped with an erasure."""

import pytest

from engramlog.projections.image import reader
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.reader import KeptRows
from engramlog.projections.tables.facts.fact_rows import FactRow


def row(position: int, value: str = "v") -> FactRow:
    return FactRow(
        position, f"id{position}", "e:1", "r", "string", value, "content", "s:1", "local", None,
        1.0, None, None, position, position, "", "[]", "direct", "s:1", "node", None,
    )  # fmt: skip


def test_cached_rows_are_found_and_the_oldest_dropped_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "ROWS_MAX", 2)
    monkeypatch.setattr(reader, "ROWS_LEFT", 2)
    kept = KeptRows(MemoryImage())
    kept.keep([row(1), row(2), row(3)], kept.erasures())
    assert kept.find([3, 1, 2]) == [row(3), None, row(2)]
    kept.keep([row(4, "v" * (reader.VALUE_LENGTH_MAX + 1))], kept.erasures())
    assert kept.find([4]) == [None]


def test_an_erasure_empties_the_cache_and_refuses_earlier_reads() -> None:
    image = MemoryImage()
    kept = KeptRows(image)
    kept.keep([row(1)], kept.erasures())
    before = kept.erasures()
    image.erasures += 1
    kept.keep([row(2)], before)
    assert kept.find([1, 2]) == [None, None]
    kept.keep([row(2)], before)
    assert kept.find([2]) == [None]
    kept.keep([row(2)], kept.erasures())
    assert kept.find([2]) == [row(2)]
