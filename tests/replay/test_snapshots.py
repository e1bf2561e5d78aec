"""Snapshots: when a rebuild starts from one, and when it skips one."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.database import open_reader
from engramlog.projections.tables.digest import compute_digests
from engramlog.projections.tables.facts.facts import FactsProjector
from engramlog.projections.tables.store import current_generation
from engramlog.projections.writing.commands import Done
from engramlog.replay.snapshot import SnapshotFault
from engramlog.replay.snapshots import UNFINISHED, PassedOver
from tests.worlds.histories import asserted


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    say(node, 5)
    yield node
    node.close()


def say(node: Node, count: int, text: str = "v") -> None:
    for number in range(count):
        (outcome,) = node.write(asserted(value=Value("string", f"{text}{number}")))
        assert isinstance(outcome, Done)


def head(node: Node) -> int:
    return node.log.head().position


def test_a_snapshot_is_the_tables_at_a_position(node: Node) -> None:
    taken = node.snapshot()
    digests = node.reader.digests()
    assert (taken.position, taken.digest, taken.tables) == (
        head(node), digests.local, digests.tables,
    )  # fmt: skip
    assert taken.hash == node.log.read(head(node) - 1, 1)[0].hash.hex()
    assert node.snapshots.all() == ([taken], [])
    assert node.snapshots.fault(taken, node.log) is None
    db = open_reader(node.snapshots.path(taken.position))
    assert compute_digests(db) == digests
    db.close()


def test_a_rebuild_replays_only_events_after_the_newest_snapshot(node: Node) -> None:
    old = node.snapshot().position
    say(node, 3)
    new = node.snapshot().position
    assert new == old + 3
    say(node, 4)
    report = node.rebuild()
    assert (report.snapshot, report.events, report.compared) == (new, 4, True)
    assert report.passed_over == []
    scratch = node.rebuild(from_scratch=True)
    assert (scratch.snapshot, scratch.events, scratch.compared) == (0, head(node), True)
    assert scratch.digest == report.digest
    with node.reader.pool.connection() as db:  # the indexes are there as well
        indexes = db.execute("SELECT count(*) FROM sqlite_master WHERE type='index'").get
    say(node, 1)
    node.rebuild()
    with node.reader.pool.connection() as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE type='index'").get == indexes


def test_a_snapshot_of_the_past_equals_one_taken_then(node: Node) -> None:
    then = node.snapshot()
    node.snapshots.remove(then.position)
    say(node, 6)
    again = node.snapshot(then.position)
    assert (again.digest, again.hash) == (then.digest, then.hash)
    later = node.snapshot(then.position + 2)  # starts from the one before
    assert later.position == then.position + 2
    assert [each.position for each in node.snapshots.all()[0]] == [
        then.position + 2, then.position,
    ]  # fmt: skip
    for wrong in (0, -1, head(node) + 1):
        with pytest.raises(SnapshotFault, match=str(wrong)):
            node.snapshot(wrong)


def altered(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:9000] + bytes([data[9000] ^ 1]) + data[9001:])


def says(document: Path, **fields: object) -> None:
    """Change the content of a document."""
    stated = msgspec.json.decode(document.read_bytes())
    document.write_bytes(msgspec.json.encode({**stated, **fields}))


DAMAGE: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "altered": (lambda file, _: altered(file), "not as it was written"),
    "cut": (lambda file, _: os.truncate(file, 9_000), "not as it was written"),
    "emptied": (lambda file, _: os.truncate(file, 0), "not as it was written"),
    "missing": (lambda file, _: file.unlink(), "missing"),
    "document cut": (lambda _, document: os.truncate(document, 40), "document cannot be read"),
    "document of another": (
        lambda _, document: says(document, position=1), "document is another snapshot's",
    ),
    "later format": (lambda _, document: says(document, format=2), "format 2"),
    "another log": (lambda _, document: says(document, hash="ab" * 32), "not on this log's chain"),
    "another version": (
        lambda _, document: says(document, versions={"facts": 1}), "other versions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_invalid_snapshots_are_named_and_skipped(node: Node, damage: str) -> None:
    old = node.snapshot()
    say(node, 2, "more ")
    new = node.snapshot()
    say(node, 2, "and more ")
    file = node.snapshots.path(new.position)
    break_it, reason = DAMAGE[damage]
    break_it(file, file.with_suffix(".json"))
    found, broken = node.snapshots.all()
    faults = [node.snapshots.fault(each, node.log) for each in found if each != old]
    (said,) = [*faults, *(each.reason for each in broken)]
    assert said is not None
    assert reason in said
    report = node.rebuild()
    assert (report.snapshot, report.compared) == (old.position, True)
    assert report.digest == node.reader.digests().local
    (passed,) = report.passed_over
    assert passed == PassedOver(new.position, said)


def test_a_missing_or_wrong_document(node: Node) -> None:
    taken = node.snapshot()
    document = node.snapshots.path(taken.position).with_suffix(".json")
    says(document, tables={**taken.tables, "facts": "00"})
    fault = node.snapshots.fault(node.snapshots.get(taken.position), node.log)
    assert fault is not None
    assert "digests of its tables are other ones: facts" in fault
    document.unlink()
    report = node.rebuild()
    assert (report.snapshot, report.passed_over, report.compared) == (0, [], True)


def test_a_snapshot_of_wrong_rows_is_found_by_the_log(node: Node) -> None:
    """Both the snapshot and its document are wrong in the same way."""
    node.writer.exclusive(
        lambda: node.writer.store.db.execute(
            "UPDATE fact_rows SET base_confidence=0.9 WHERE rowid=2"
        )
    ).result()
    wrong = node.snapshot()
    node.writer.exclusive(
        lambda: node.writer.store.db.execute(
            "UPDATE fact_rows SET base_confidence=1.0 WHERE rowid=2"
        )
    ).result()
    assert node.snapshots.fault(wrong, node.log) is None
    say(node, 2)
    report = node.rebuild()
    assert (report.snapshot, report.events, report.compared) == (0, head(node), True)
    (passed,) = report.passed_over
    assert passed.position == wrong.position
    assert "fact_rows" in passed.reason


def test_a_snapshot_with_a_halted_projector_is_not_taken(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    with monkeypatch.context() as patch:
        patch.setattr(FactsProjector, "apply", poison)
        node.write(asserted())
    with pytest.raises(SnapshotFault, match="facts is halted"):
        node.snapshot()
    assert node.snapshots.all() == ([], [])
    assert not (node.snapshots.folder / UNFINISHED).exists()


def test_unfinished_snapshots_are_removed_at_the_next_start(tmp_path: Path) -> None:
    with_one = Node.open(tmp_path / "data")
    say(with_one, 2)
    kept = with_one.snapshot()
    with_one.close()
    folder = with_one.snapshots.folder
    for name in (UNFINISHED, f"{UNFINISHED}-journal", "000000000009.db"):
        (folder / name).write_bytes(b"half")
    node = Node.open(tmp_path / "data")
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{kept.position:012d}.db", f"{kept.position:012d}.json",
    ]  # fmt: skip
    node.close()


def test_automatic_ones_make_room_and_those_asked_for_stay(node: Node) -> None:
    asked = node.snapshot().position
    assert not node.snapshot(automatic=True).automatic  # the requested one stays manual
    for number in range(4):
        say(node, 1, f"more {number} ")
        assert node.snapshot(automatic=True).automatic
    node.snapshots.prune(2)
    assert [each.position for each in node.snapshots.all()[0]] == [asked + 4, asked + 3, asked]
    node.snapshots.remove(asked)
    with pytest.raises(SnapshotFault, match=str(asked)):
        node.snapshots.remove(asked)


def test_damaged_tables_come_back_from_a_snapshot(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    say(node, 5)
    node.snapshot()
    say(node, 3)
    digests = node.reader.digests()
    file = current_generation(node.directory.projections_path)
    node.close()
    assert file is not None
    file.write_bytes(b"not a database at all" * 1_000)
    seen: list[tuple[int, int]] = []
    node = Node.open(tmp_path / "data", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (3, 3)]  # what the snapshot has is not replayed
    assert node.reader.digests() == digests
    node.close()


def test_another_version_of_a_projector_makes_the_tables_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node.open(tmp_path / "data")
    say(node, 5)
    taken = node.snapshot()
    before, events = node.reader.digests(), head(node)
    old = current_generation(node.directory.projections_path)
    node.close()
    monkeypatch.setattr(FactsProjector, "version", FactsProjector.version + 1)
    seen: list[tuple[int, int]] = []
    node = Node.open(tmp_path / "data", progress=lambda done, total: seen.append((done, total)))
    assert current_generation(node.directory.projections_path) != old
    assert seen == [(0, events), (events, events)]  # the old version's snapshot is unusable
    assert node.reader.digests().local == before.local
    assert node.writer.store.outdated == []
    report = node.rebuild()
    assert report.compared
    assert report.passed_over == [
        PassedOver(taken.position, "other versions of the projectors made it: facts")
    ]
    node.close()
    seen.clear()
    node = Node.open(tmp_path / "data", progress=lambda done, total: seen.append((done, total)))
    assert seen == []  # only once
    node.close()


def test_snapshots_are_whole_while_others_write(node: Node) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            say(node, 1, f"busy {number} ")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    taken = [node.snapshot() for _ in range(4)]
    stop.set()
    writer.join()
    # Without writes in between, the later one replaced the earlier.
    last = {each.position: each for each in taken}
    assert len(last) > 1
    for each in last.values():
        assert node.snapshots.fault(each, node.log) is None
        node.snapshots.remove(each.position)
        assert node.snapshot(each.position).digest == each.digest  # by replaying up to there


def test_a_snapshot_removed_while_they_are_listed_is_not_listed_as_damaged(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = node.snapshot()
    say(node, 1)
    gone = node.snapshot()
    known = Path.read_bytes

    def read_late(path: Path) -> bytes:
        if path.stem == gone.name:
            node.snapshots.remove(gone.position)
        return known(path)

    monkeypatch.setattr(Path, "read_bytes", read_late)
    assert node.snapshots.all() == ([kept], [])


def test_an_empty_document_of_an_earlier_release_is_swept_with_its_file(node: Node) -> None:
    kept = node.snapshot()
    say(node, 1)
    torn = node.snapshot()
    (node.snapshots.folder / f"{torn.name}.json").write_bytes(b"")
    node.snapshots.sweep()
    assert node.snapshots.all() == ([kept], [])
    assert not node.snapshots.path(torn.position).exists()
