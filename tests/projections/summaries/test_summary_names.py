"""Which paths are summaries, their periods, and how their text is split. Dates by a printed
calendar."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.memories.summary_naming import (
    Period,
    name_of_file,
    period_of_entity,
    period_of_name,
)
from engramlog.projections.summaries.reading import paragraphs_of


@pytest.mark.parametrize(
    ("name", "tier", "start"),
    [
        ("daily/daily_2026-06-15.md", "daily", date(2026, 6, 15)),
        ("consolidation/daily/daily_2024-02-29.md", "daily", date(2024, 2, 29)),
        ("consolidation/weekly/weekly_2026-W25.md", "weekly", date(2026, 6, 15)),
        ("weekly/weekly_2026-W25.md", "weekly", date(2026, 6, 15)),
        ("weekly/weekly_2026-09-20.md", "weekly", date(2026, 9, 20)),
        # 4 January 2026 is a Sunday: week 1 begins in the year before.
        ("weekly/weekly_2026-W01.md", "weekly", date(2025, 12, 29)),
        # 4 January 2021 is a Monday.
        ("weekly/weekly_2021-W01.md", "weekly", date(2021, 1, 4)),
        ("weekly/weekly_2020-W53.md", "weekly", date(2020, 12, 28)),
        # 2026 begins on a Thursday, so it has a week 53.
        ("weekly/weekly_2026-W53.md", "weekly", date(2026, 12, 28)),
        ("quarterly/quarterly_2026-Q1.md", "quarterly", date(2026, 1, 1)),
        ("quarterly/quarterly_2026-Q4.md", "quarterly", date(2026, 10, 1)),
        ("consolidation/quarterly/quarterly_2026-05-06.md", "quarterly", date(2026, 5, 6)),
    ],
)
def test_the_name_gives_the_period(name: str, tier: str, start: date) -> None:
    period = period_of_name(name)
    assert period is not None
    assert (period.tier, period.start) == (tier, start)
    assert period_of_entity(period.entity) == period


@pytest.mark.parametrize(
    "name",
    [
        "weekly/weekly_probe.md",
        "weekly/weekly_2026-W54.md",
        "weekly/weekly_2025-W53.md",  # 2025 begins on a Wednesday: it has 52 weeks
        "weekly/weekly_2026-W00.md",
        "weekly/weekly_2026-w25.md",
        "weekly/weekly_2026-W25.txt",
        "weekly/weekly_2026-W25.md.bak",
        "weekly/daily_2026-06-15.md",
        "daily/daily_2026-W25.md",
        "daily/daily_2026-02-29.md",
        "daily/daily_2026-6-15.md",
        "quarterly/quarterly_2026-Q5.md",
        "monthly/monthly_2026-06.md",
        "daily_2026-06-15.md",
        "other/daily/daily_2026-06-15.md",
        "consolidation/consolidation/daily/daily_2026-06-15.md",
        "../daily/daily_2026-06-15.md",
        "daily/daily_0000-01-01.md",
        "daily/daily_\u0662\u0660\u0662\u0666-01-01.md",
        "",
    ],
)
def test_any_other_name_is_invisible(name: str) -> None:
    assert period_of_name(name) is None


@pytest.mark.parametrize(
    "entity",
    ["summary:weekly", "summary:monthly:2026-06-15", "summary:daily:2026-02-30", "daily:x:y", ""],
)
def test_any_other_entity_is_no_period(entity: str) -> None:
    assert period_of_entity(entity) is None


def test_a_period_begins_at_midnight_utc() -> None:
    assert Period("daily", date(1970, 1, 2)).start_us == 86_400_000_000
    assert Period("daily", date(1969, 12, 31)).start_us == -86_400_000_000


def test_blank_lines_separate_paragraphs() -> None:
    text = "\ufeff# Week 25\r\n\r\nWe moved to SQLite.\nIt was quick.\n \t\n\n\n  Alice left.  \n"
    assert paragraphs_of(text) == ["# Week 25", "We moved to SQLite.\nIt was quick.", "Alice left."]
    assert paragraphs_of(" \n\n\t\n") == []
    assert paragraphs_of("one") == ["one"]


@given(st.lists(st.text(st.sampled_from("ab \n\t\r#"), max_size=12), max_size=5))
def test_a_text_of_paragraphs_has_these_paragraphs(parts: list[str]) -> None:
    once = paragraphs_of("\n\n".join(parts))
    assert paragraphs_of("\n\n".join(once)) == once
    assert all(each and each == each.strip() for each in once)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("daily/daily_2026-06-01.md", "daily/daily_2026-06-01.md"),
        ("daily/2026-06-01.md", "daily/daily_2026-06-01.md"),
        ("weekly/2026-W25.md", "weekly/weekly_2026-W25.md"),
        ("consolidation/quarterly/2026-Q2.md", "consolidation/quarterly/quarterly_2026-Q2.md"),
        ("2026-06-01.md", "daily/daily_2026-06-01.md"),
        ("2026-W25.md", "weekly/weekly_2026-W25.md"),
        ("weekly_2026-06-01.md", "weekly/weekly_2026-06-01.md"),
        ("consolidation/2026-Q2.md", "consolidation/quarterly/quarterly_2026-Q2.md"),
        ("daily/weekly_2026-W25.md", None),
        ("daily/2026-W25.md", None),
        ("2026-13-01.md", None),
        ("weekly_probe.md", None),
        ("other/2026-06-01.md", None),
        ("daily/more/2026-06-01.md", None),
        ("2026-06-01.txt", None),
    ],
)
def test_files_by_their_usual_names_are_recorded_under_one(path: str, name: str | None) -> None:
    assert name_of_file(path) == name
