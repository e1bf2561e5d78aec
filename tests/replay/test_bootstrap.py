"""Which of a primary's snapshots a new replica takes, and when it replays the log instead."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.kinds import Value
from engramlog.replay.replication.bootstrap import fetch_snapshot
from engramlog.replay.replication.follower import PrimaryUnreachable
from engramlog.replay.snapshot import Snapshot, SnapshotFault
from engramlog.replay.snapshots import Snapshots
from tests.worlds.histories import asserted


class Offer:
    """A primary's snapshots in transit: documents and bytes."""

    def __init__(self, *offered: tuple[Snapshot, bytes]) -> None:
        self.offered = list(offered)
        self.asked: list[int] = []
        self.cut = False

    def documents(self) -> list[Snapshot]:
        return [document for document, _ in self.offered]

    def contents(self, position: int) -> Iterator[bytes]:
        self.asked.append(position)
        data = next(data for document, data in self.offered if document.position == position)
        for start in range(0, len(data), 10_000):
            if self.cut and start:
                raise PrimaryUnreachable("it has gone")
            yield data[start : start + 10_000]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    for number in range(8):
        node.write(asserted(value=Value("string", f"v{number}")))
    yield node
    node.close()


def copies_in(path: Path, node: Node) -> Snapshots:
    return Snapshots(HeldDirectory(path, node.identity, ()))


def taken(node: Node, position: int) -> tuple[Snapshot, bytes]:
    document = node.snapshot(position)
    return document, node.snapshots.path(position).read_bytes()


def test_the_newest_one_on_the_log_is_fetched_and_is_the_same(node: Node, tmp_path: Path) -> None:
    old, new = taken(node, 3), taken(node, 6)
    later = msgspec.structs.replace(new[0], position=node.log.head().position + 1)
    offer, copies = Offer((later, b""), new, old), copies_in(tmp_path, node)
    seen: list[tuple[int, int]] = []
    fetched = fetch_snapshot(offer, copies, node.log, 77, lambda *each: seen.append(each))
    assert fetched is not None
    assert offer.asked == [6]
    assert seen[-1] == (len(new[1]), len(new[1]))
    assert copies.path(6).read_bytes() == new[1]
    assert copies.all() == ([msgspec.structs.replace(new[0], automatic=True, made_at_us=77)], [])
    assert copies.fault(fetched, node.log) is None


Changed = Callable[[Snapshot, bytes], tuple[Snapshot, bytes]]


def stated(**fields: object) -> Changed:
    return lambda document, data: (msgspec.structs.replace(document, **fields), data)


WRONG: dict[str, Changed] = {
    "a flipped bit": lambda document, data: (
        document, data[:9_000] + bytes([data[9_000] ^ 1]) + data[9_001:],
    ),
    "cut off": lambda document, data: (document, data[:20_000]),
    "empty": lambda document, _: (document, b""),
    "longer": lambda document, data: (document, data + b"more"),
    "no tables": lambda document, data: (document, b"x" * len(data)),
    "another log": stated(hash="ab" * 32),
    "other projectors": stated(versions={"facts": 1}),
    "other digests": stated(digest="00" * 32),
    "another table": stated(tables={"facts": "00"}),
    "another sum": stated(sha256="00" * 32),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_unfitting_snapshots_are_skipped(
    node: Node, tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = taken(node, 3), WRONG[wrong](*taken(node, 6))
    copies = copies_in(tmp_path, node)
    offer = Offer(bad, good)
    fetched = fetch_snapshot(offer, copies, node.log, 0)
    assert "snapshot" in caplog.text
    assert "is passed over" in caplog.text
    assert fetched is not None
    assert [each.position for each in copies.all()[0]] == [3] == [fetched.position]
    alone = copies_in(tmp_path / "alone", node)
    alone.folder.parent.mkdir()
    assert fetch_snapshot(Offer(bad), alone, node.log, 0) is None
    assert not list(alone.folder.glob("*"))


def test_without_snapshots_the_log_is_replayed(node: Node, tmp_path: Path) -> None:
    copies = copies_in(tmp_path, node)
    assert fetch_snapshot(Offer(), copies, node.log, 0) is None
    offer = Offer(taken(node, 6), taken(node, 3))
    offer.cut = True
    assert fetch_snapshot(offer, copies, node.log, 0) is None
    assert offer.asked == [6]  # it is not requested again
    assert not list(copies.folder.glob("*"))

    class Older(Offer):
        def documents(self) -> list[Snapshot]:
            raise SnapshotFault("a snapshot of format 9 cannot be read here")

    assert fetch_snapshot(Older(), copies, node.log, 0) is None
