"""Pages are limited in bytes; a peer that accepts less is asked for less."""

import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.digest import stream_digests
from engramlog.replay.federation.page import (
    PAGE_BYTES,
    PAGE_BYTES_MAX,
    PageFault,
    StreamPage,
    decode_page,
)
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


@pytest.mark.parametrize("row", [b"\x94\xc4\x00\xc4\x00\xc0\xc0", b"\xc0"])
def test_a_small_page_does_not_unpack_into_millions_of_objects(row: bytes) -> None:
    count = (PAGE_BYTES_MAX - 100) // len(row)
    plain = b"\x95\x01\xa1s\xdd" + count.to_bytes(4, "big") + row * count
    data = zlib.compress(plain, 1)
    del plain
    tracemalloc.start()
    try:
        with pytest.raises(PageFault, match="oversized"):
            decode_page(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * PAGE_BYTES_MAX  # the plain bytes, while they grow


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
