"""Pages are limited in bytes; a peer that accepts less is asked for less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.digest import stream_digests
from engramlog.replay.federation.page import PAGE_BYTES, PageFault, StreamPage
from engramlog.replay.federation.serving import read_page
from tests.worlds.federation.network import Link, Member
from tests.worlds.histories import asserted

LETTERS = 900_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Member, Member]]:
    """``a`` has stated ten facts of 0.9 MB, and ``b`` replays it."""
    folder: Path = tmp_path_factory.mktemp("large")
    a, b = Member(folder, "a"), Member(folder, "b")
    a.meet(b)
    b.meet(a)
    for n in range(10):
        value = Value("text", f"{n}" * LETTERS)
        a.submit([asserted(value=value, source="agent:a", scope="company")])
    yield a, b
    a.close()
    b.close()


def stream_of(member: Member) -> str:
    return f"{member.id}/1/scope/company"


def sizes(page: StreamPage) -> list[int]:
    return [len(header) + len(payload or b"") for header, _, _, payload in page.events]


def test_a_page_holds_no_more_than_its_bytes(pair: tuple[Member, Member]) -> None:
    a, _ = pair
    after, pages = 0, 0
    while page := read_page(a.node.identity, a.node.log, stream_of(a), after, 2_000, 0):
        assert sum(sizes(page)) <= PAGE_BYTES
        after, pages = after + len(page.events), pages + 1
    assert (after, pages) == (10, 3)


def test_an_oversized_page_is_requested_by_half_and_the_stream_continues(
    pair: tuple[Member, Member],
) -> None:
    a, b = pair
    asked: list[int] = []

    class Narrow(Link):
        def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
            asked.append(limit)
            if limit > 3:
                raise PageFault("oversized", "the answer is larger than it may be")
            return super().page(stream, after_seq, limit)

    pulled = b.pull(Narrow(b, a))
    assert (pulled.faults, pulled.events) == ({}, 10)
    assert asked[:11] == [2000, 1000, 500, 250, 125, 62, 31, 15, 7, 3, 3]
    assert b.node.reader.ask(stream_digests) == a.node.reader.ask(stream_digests)
