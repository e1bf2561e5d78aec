"""Pages of a list from several nodes over one log, of which one is behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.lagging_nodes import lags, seen, two_nodes
from tests.worlds.live import LiveNode
from tests.worlds.waiting import until

LIST = {"scope": "company", "limit": 2, "tail": True}


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str) -> Iterator[tuple[LiveNode, LiveNode]]:
    """The second has only the first of four facts, and continues when a request waits for it."""
    with two_nodes(tmp_path, postgres_url) as (first, second):
        first.state(v="a", relation="memory:a")
        seen(second, first)
        lags(second)
        for v in ("b", "c", "d"):
            first.state(v=v, relation=f"memory:{v}")
        head = first.node.log.head().position
        until(lambda: second.node.log.head().position == head)  # its listener heard of them
        commits, follow = second.service().commits, second.node.writer.follow
        wait = commits.wait_reading

        async def waited(*given: Any) -> bool:
            follow()
            return await wait(*given)

        commits.wait_reading = waited  # type: ignore[method-assign]
        yield first, second


def page(at: LiveNode, cursor: str | None = None) -> tuple[list[str], str]:
    """The values of a page, and the cursor of the next."""
    asked = LIST if cursor is None else {**LIST, "cursor": cursor}
    answer = at.call("GET", "/v1/facts", params=asked)
    assert answer.status_code == 200, answer.text
    return [each["value"]["v"] for each in answer.json()["facts"]], answer.json()["cursor"]


def test_a_node_that_is_behind_skips_nothing_of_anothers_list(
    nodes: tuple[LiveNode, LiveNode],
) -> None:
    first, second = nodes
    begun, cursor = page(first)
    rest, _ = page(second, cursor)
    assert sorted(begun + rest) == ["a", "b", "c", "d"]


def test_a_node_that_is_behind_repeats_nothing_of_anothers_tail(
    nodes: tuple[LiveNode, LiveNode],
) -> None:
    first, second = nodes
    _, cursor = page(first)
    _, cursor = page(first, cursor)
    none, cursor = page(second, cursor)
    first.state(v="e", relation="memory:e")
    assert (none, page(first, cursor)[0]) == ([], ["e"])
