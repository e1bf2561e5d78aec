"""Cadences: their grammar, and the hours that clocks skip and repeat."""

from typing import Any

import pytest

from engramlog.projections.episodes.cadence import (
    Cadence,
    CadenceError,
    due_fire,
    next_fire,
    parse_cadence,
)
from engramlog.projections.moment import format_instant, parse_instant


@pytest.mark.parametrize(
    "given", [{"every": 100}, {"every": "100"}, {"every": "100 episodes"}, "every: 100 episodes",
              "every: 100", " every : 100 "],
)  # fmt: skip
def test_every_so_many_episodes(given: Any) -> None:
    assert parse_cadence(given) == Cadence(every=100)
    assert parse_cadence("every: 1") == Cadence(every=1)


def test_a_cron_cadence_is_read_from_text_and_document() -> None:
    assert parse_cadence("cron: '0 3 * * *'") == Cadence(cron="0 3 * * *")
    whole = parse_cadence({"cron": "0  3 * * 1", "tz": "Europe/Vienna", "missed": "skip"})
    assert whole == Cadence(cron="0 3 * * 1", tz="Europe/Vienna", missed="skip")
    assert parse_cadence(whole.document()) == whole


@pytest.mark.parametrize(
    "given",
    [
        {}, None, 7, "daily", [], {"every": 0}, {"every": -1}, {"every": True}, {"every": 1.5},
        {"every": "many"}, {"every": 10**9}, {"every": 1, "cron": "* * * * *"},
        {"every": 1, "tz": "UTC"}, {"cron": "* * * *"}, {"cron": "* * * * * *"}, {"cron": "@daily"},
        {"cron": "60 * * * *"}, {"cron": "0 0 30 2 *"}, {"cron": 5},
        {"cron": "* * * * *", "tz": ""},
        {"cron": "* * * * *", "tz": "Mars/Base"}, {"cron": "* * * * *", "missed": "twice"},
        {"every": 1, "often": True},
    ],
)  # fmt: skip
def test_an_invalid_cadence_is_refused(given: Any) -> None:
    with pytest.raises(CadenceError):
        parse_cadence(given)


def fires(cadence: Cadence, start: str, count: int) -> list[str]:
    at, found = parse_instant(start), []
    for _ in range(count):
        at = next_fire(cadence, at)
        found.append(format_instant(at)[:16])
    return found


def test_an_hour_that_the_clocks_skip_fires_once() -> None:
    cadence = parse_cadence({"cron": "30 2 * * *", "tz": "America/New_York"})
    # 8 March 2026: 2:00 becomes 3:00. 7 March 2:30 EST, 8 March 3:00 EDT, 9 March 2:30 EDT.
    assert fires(cadence, "2026-03-07T00:00:00Z", 3) == [
        "2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30",
    ]  # fmt: skip


def test_an_hour_that_comes_twice_fires_once() -> None:
    cadence = parse_cadence({"cron": "30 1 * * *", "tz": "America/New_York"})
    # 1 November 2026: 2:00 EDT becomes 1:00 EST. 1:30 EDT is 5:30 UTC, the next 1:30 EST 6:30.
    assert fires(cadence, "2026-11-01T00:00:00Z", 2) == ["2026-11-01T05:30", "2026-11-02T06:30"]


@pytest.mark.parametrize(
    ("since", "now", "due"),
    [
        ("2026-03-01T04:00:00Z", "2026-03-02T02:59:59Z", None),
        ("2026-03-01T04:00:00Z", "2026-03-02T03:00:00Z", "2026-03-02T03:00"),
        ("2026-03-01T04:00:00Z", "2026-03-09T02:00:00Z", "2026-03-08T03:00"),
        ("2026-03-02T03:00:00Z", "2026-03-02T03:00:30Z", None),
        ("1970-01-02T00:00:00Z", "2026-03-09T02:00:00Z", "2026-03-08T03:00"),
    ],
)
def test_missed_fires_are_one(since: str, now: str, due: str | None) -> None:
    cadence = Cadence(cron="0 3 * * *")
    found = due_fire(cadence, parse_instant(since), parse_instant(now))
    assert (None if found is None else format_instant(found)[:16]) == due


def test_a_fire_in_a_skipped_hour_is_due_once() -> None:
    cadence = parse_cadence({"cron": "30 2 * * *", "tz": "America/New_York"})
    since, found = parse_instant("2026-03-07T12:00:00Z"), []
    for minute in range(0, 48 * 60, 7):
        now = parse_instant("2026-03-07T12:00:00Z") + minute * 60_000_000
        due = due_fire(cadence, since, now)
        if due is not None:
            since = due
            found.append(format_instant(due)[:16])
    assert found == ["2026-03-08T07:00", "2026-03-09T06:30"]
