"""A search takes bounded processor time, with any pattern and text."""

import threading
import time
from collections.abc import Iterator

import pytest

from engramlog.projections.episodes import pattern_search
from engramlog.projections.episodes.pattern_search import (
    STEPS_HERE_MAX,
    BoundedSearch,
    SearchesStopped,
    Unsearchable,
    found_groups,
    steps,
)

SLOW = r"(?P<a>\w*)x\w*y\w*z"
LONG = "x" * 4_096


@pytest.fixture
def search() -> Iterator[BoundedSearch]:
    made = BoundedSearch()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (SLOW, LONG),
        ("(?:a?){60}x", "a" * 4_096),
        ("a?" * 30 + "a" * 30, "a" * 30),
        ("(x+)+y", LONG),
        ("(?x) ( x + # one )\n ) + y", LONG),
        ("(?x:(x+) +)y", "x" * 40),
        ("(?=(x+)+y)x", LONG),
        (r"(\w+)\1y", LONG),
        (r"(?P<a>\w+)(?P=a)y", LONG),
    ],
)
def test_a_search_of_too_many_steps_ends(
    search: BoundedSearch, pattern: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = pattern_search._PROCESS.replace("1.0", "0.05")  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(pattern_search, "_PROCESS", quick)
    with pytest.raises(Unsearchable, match="processor time"):
        search(pattern, text)
    assert search(pattern, "nothing") == found_groups(pattern, "nothing"), "and the next one runs"


def test_a_match_of_the_process_is_the_same(search: BoundedSearch) -> None:
    for text in ("axbyc z \ud800 'ü\n' yz xyz", LONG + "yz", "none"):
        assert steps(SLOW, len(text) + 500) > STEPS_HERE_MAX
        padded = text + " " * 500
        assert search(SLOW, padded) == found_groups(SLOW, padded)
    unnamed = r"(?P<one>q)?.*(?P<two>y).*z.*"
    assert search(unnamed, "yz" + " " * 900) == {"one": "", "two": "y"}


def test_ordinary_searches_start_no_process(search: BoundedSearch) -> None:
    assert steps(r"I live in (?P<town>\w+)", 4_096) <= STEPS_HERE_MAX
    assert steps(r"(?:likes|loves) (?P<what>.+) and .*", 300) <= STEPS_HERE_MAX
    assert steps(r"(?P<day>\d{4}-\d\d-\d\d)?", 4_096) <= STEPS_HERE_MAX
    assert steps("(a+)+", 1) > STEPS_HERE_MAX


def test_a_closed_search_stops_and_stays_closed(search: BoundedSearch) -> None:
    ended: list[BaseException] = []

    def run() -> None:
        try:
            search(SLOW, LONG)
        except SearchesStopped as fault:
            ended.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    while search._process is None:  # pyright: ignore[reportPrivateUsage]
        time.sleep(0.001)
    search.close()
    thread.join()
    assert len(ended) == 1
    with pytest.raises(SearchesStopped):
        search("a", "a")
