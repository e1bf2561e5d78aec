"""The memory image's storage grows under readers, and their pinned data stays."""

import random
import threading

import numpy as np
import pytest

from engramlog.projections.columns.columns import ROW_FIELDS, Columns
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.columns.slot_counts import SUMMED_ROWS, SlotCounts
from engramlog.projections.columns.slot_lists import Postings
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.interner import Interner
from engramlog.projections.moment import LIVE, Moment
from engramlog.projections.tables.declared.keys import KeyRing, KeyRow
from engramlog.projections.tables.declared.trust import TrustPart


def row(position: int, **fields: object) -> tuple[object, ...]:
    values = {"from_position": position, "to_position": LIVE, "set_aside": LIVE, **fields}
    return tuple(values.get(name, 0) for name in ROW_FIELDS)


def test_numbers_of_texts_are_given_in_order_and_stay() -> None:
    names = Interner()
    assert [names.add(text) for text in ("a", "b", "a", "")] == [0, 1, 0, 2]
    assert (names.number("b"), names.number("c"), names.text(2), len(names)) == (1, None, "", 3)
    with pytest.raises(IndexError):
        names.text(3)


def test_columns_grow_by_copying_so_that_a_pinned_view_keeps_its_past() -> None:
    image = MemoryImage()
    image.facts = FactColumns(capacity=2)
    image.facts.append([row(1, base=0.5)])
    image.facts.append([row(2, base=0.25)])
    image.published, image.position = 2, 2
    pinned = View(image)
    image.facts.append([row(n, base=1.0) for n in range(3, 103)])
    image.facts.note_once("to_position", [0], 104)
    image.published, image.position = 102, 104
    assert pinned.count == 2
    assert pinned.base.tolist() == [0.5, 0.25]
    assert pinned.to_position.tolist() == [LIVE, LIVE]
    assert not pinned.ended(np.array([0], dtype=np.int32), Moment(2, 0)).any()
    now = View(image)
    assert now.count == 102
    assert now.from_position.tolist() == list(range(1, 103))
    assert now.to_position[:2].tolist() == [104, LIVE]


def test_an_end_is_written_once() -> None:
    columns = Columns()
    columns.append([row(1)])
    columns.note_once("to_position", [0], 5)
    columns.note_once("to_position", [0, 0], 7)
    assert columns.arrays["to_position"][0] == 5


def test_slot_lists_are_cut_to_the_pinned_rows() -> None:
    lists = Postings()
    for slot in (0, 3, 7):
        lists.add("x", slot)
    lists.add("one", 4)
    lists.add_all(["x", "y", "y"], 9)
    assert [lists.slots("x", count).tolist() for count in (0, 1, 3, 4, 8, 10)] == [
        [], [0], [0], [0, 3], [0, 3, 7], [0, 3, 7, 9],
    ]  # fmt: skip
    assert [lists.slots("one", count).tolist() for count in (4, 5)] == [[], [4]]
    assert lists.slots("y", 10).tolist() == [9, 9]
    assert lists.slots("none", 10).tolist() == []
    assert list(lists) == ["x", "one", "y"]


def test_slot_lists_may_be_read_while_they_grow() -> None:
    lists = Postings()
    stop = threading.Event()

    def grow() -> None:
        for slot in range(20_000):
            lists.add("x", slot)
        stop.set()

    writer = threading.Thread(target=grow)
    writer.start()
    while not stop.is_set():
        found = lists.slots("x", 5_000)
        assert found.tolist() == list(range(len(found)))
    writer.join()
    assert len(lists.slots("x", 5_000)) == 5_000


def test_counts_of_many_events_are_the_sums_at_each_position() -> None:
    dice, rows = random.Random(3), list[tuple[int, int, int]]()
    counts = SlotCounts()
    slots = np.arange(60, dtype=np.int32)

    def check(position: int) -> None:
        wanted = [sum(n for at, slot, n in rows if slot == s and at <= position) for s in range(60)]
        assert counts.at(slots, position).tolist() == wanted

    last = 3 * SUMMED_ROWS // 4
    for position in range(1, last):
        uses = [(dice.randrange(position % 50 + 1), dice.randrange(1, 9)) for _ in range(3)]
        counts.add(position, uses)
        rows += [(position, *use) for use in uses]
        if position % 37 == 0:
            check(position)
            check(dice.randrange(position))
    again = SlotCounts()
    again.restore(counts.state())
    counts = again
    check(last // 2)
    check(last - 1)
    counts.add(last, [(59, 7)])
    rows.append((last, 59, 7))
    check(last)


def test_counts_and_trust_are_those_of_the_position_asked() -> None:
    accesses = SlotCounts()
    accesses.add(3, [(0, 1), (2, 5), (0, 1)])
    accesses.add(4, [])
    accesses.add(6, [(9, 1), (0, 1)])
    slots = np.array([0, 1, 2, 9, 40], dtype=np.int32)
    assert [accesses.at(slots, position).tolist() for position in (2, 3, 5, 6)] == [
        [0, 0, 0, 0, 0], [2, 0, 5, 0, 0], [2, 0, 5, 0, 0], [3, 0, 5, 1, 0],
    ]  # fmt: skip
    names = Interner()
    trust = TrustPart(names)
    trust.add(3, "a", 0.5)
    trust.add(5, "a", 0.25)
    sources = np.array([names.add("a"), names.add("b")], dtype=np.int32)
    here = np.zeros(2, dtype=np.int8)
    no_peer = np.full(2, -1, dtype=np.int32)
    assert [trust.at(sources, here, no_peer, position).tolist() for position in (2, 3, 5)] == [
        [1.0, 1.0], [0.5, 1.0], [0.25, 1.0],
    ]  # fmt: skip


def key(
    digest: str, *, name: str = "k", expires: int | None = None, revoked: int | None = None
) -> KeyRow:
    return KeyRow(
        name, "agent:a", ("read",), ("local",), (), digest, None, 0, expires, "d", 2, revoked
    )


def test_a_key_opens_until_it_expires_or_is_revoked() -> None:
    good, old, gone = "aa" * 32, "bb" * 32, "cc" * 32
    ring = KeyRing(
        [key(good), key(old, name="old", expires=100), key(gone, name="gone", revoked=7)]
    )
    found = ring.lookup(good, 10**18)
    assert found is not None
    assert found.key_sha256 == good
    assert ring.lookup(old, 99) is not None
    assert ring.lookup(old, 100) is None
    assert ring.lookup(gone, 0) is None
    assert ring.lookup("dd" * 32, 0) is None
    assert ring.lookup(good[:16] + "0" * 48, 0) is None, "the prefix alone is not a key"
    assert len(ring.list()) == 2
    assert ring.list("agent:b") == []


def test_a_lookup_compares_a_whole_digest_whether_or_not_the_key_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[int, int]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    ring = KeyRing([key("aa" * 32)])
    for digest in ("aa" * 32, "bb" * 32):
        ring.lookup(digest, 0)
    assert compared == [(64, 64), (64, 64)]
    assert ring.get("k") is not None
    assert ring.get("other") is None
