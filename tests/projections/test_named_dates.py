from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.text.named_dates import Named, named_dates

TODAY = date(2024, 5, 15)  # a Wednesday


def spans(text: str, *years: int) -> list[tuple[str, str]]:
    """First day and last day of every date."""
    return [
        (first.isoformat(), (after - timedelta(1)).isoformat())
        for named in named_dates(text, TODAY)
        for first, after in named.spans(years or (2023,))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who had dinner on May 3, 2023?", [("2023-05-03", "2023-05-03")]),
        ("on March 3rd", [("2023-03-03", "2023-03-03")]),
        ("the 31 of December 2023", [("2023-12-31", "2023-12-31")]),
        ("on 29 Dec 2023", [("2023-12-29", "2023-12-29")]),
        ("on 01.02.2024", [("2024-02-01", "2024-02-01")]),
        ("on 2024-02-01, really", [("2024-02-01", "2024-02-01")]),
        ("on 2/1/2024", [("2024-02-01", "2024-02-01")]),
        ("in December 2022", [("2022-12-01", "2022-12-31")]),
        ("last May", [("2023-05-01", "2023-05-31")]),
        ("in February", [("2023-02-01", "2023-02-28")]),
        ("in 2022", [("2022-01-01", "2022-12-31")]),
        ("between 2019 and 2021", [("2019-01-01", "2019-12-31"), ("2021-01-01", "2021-12-31")]),
        ("in the 1990s", [("1990-01-01", "1999-12-31")]),
        ("two weeks before April 10, 2023", [("2023-03-27", "2023-04-02")]),
        ("the week before April 10, 2023", [("2023-04-03", "2023-04-09")]),
        ("a day after April 10, 2023", [("2023-04-11", "2023-04-11")]),
        ("twelve weekends prior to the April 10, 2023", [("2023-01-16", "2023-01-22")]),
        ("999 weekends prior to the April 10, 2023", [("2004-02-16", "2004-02-22")]),
        ("yesterday", [("2024-05-14", "2024-05-14")]),
        ("three days ago", [("2024-05-12", "2024-05-12")]),
        ("last week", [("2024-05-06", "2024-05-12")]),
        ("last month", [("2024-04-01", "2024-04-30")]),
        ("last year", [("2023-01-01", "2023-12-31")]),
    ],
)
def test_dates_that_a_text_names(text: str, expected: list[tuple[str, str]]) -> None:
    assert spans(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "What may I march for?",
        "It may rain",
        "a second thought",
        "on February 30",
        "It cost $2023",
        "version 1.2024",
        "in 3024",
        "",
    ],
)
def test_a_text_without_a_date_names_none(text: str) -> None:
    assert spans(text) == []


def test_a_date_without_a_year_is_of_every_year() -> None:
    assert spans("on February 29", 2023, 2024) == [("2024-02-29", "2024-02-29")]
    assert [first for first, _ in spans("on June 1", 2022, 2023)] == ["2022-06-01", "2023-06-01"]


def test_a_date_that_is_named_twice_counts_once() -> None:
    assert named_dates("May 3, 2023 and 3 May 2023", TODAY) == (Named(2023, 5, 3),)


@given(st.text(alphabet="0123456789/.- aeforsty"), st.dates())
def test_no_text_is_too_odd(text: str, today: date) -> None:
    for named in named_dates(f"{text} years ago on {text} May {text} last year", today):
        for first, after in named.spans((1, 2024, 9999)):
            assert first < after
