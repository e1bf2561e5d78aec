"""Failing rebuilds leave the tables in use unchanged."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.errors import StorageFull
from engramlog.eventlog.kinds import KeyIssued, KeyRevoked, Value
from engramlog.projections.tables.database import open_reader, open_writer, tables_position
from engramlog.projections.tables.digest import TableDigests, compute_digests
from engramlog.projections.tables.facts.facts import FactsProjector
from engramlog.projections.tables.store import (
    ProjectionStore,
    current_generation,
    generations,
    new_generation,
)
from engramlog.projections.writing.commands import Done
from engramlog.projections.writing.submission import WriterBusy
from engramlog.replay import rebuild
from engramlog.replay.rebuild import (
    DigestMismatch,
    ProjectorHalted,
    replay_into,
    rewrite_serving,
)
from engramlog.replay.snapshots import Snapshots
from tests.worlds.histories import asserted


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    for number in range(5):
        say(node, number)
    yield node
    node.close()


def say(node: Node, number: int) -> Done:
    (outcome,) = node.write(asserted(value=Value("string", f"v{number}")))
    assert isinstance(outcome, Done)
    return outcome


def files(node: Node) -> list[str]:
    return [path.name for path in generations(node.directory.projections_path)]


def test_a_rebuild_leaves_one_file_and_the_link_on_it(node: Node) -> None:
    link = node.directory.projections_path
    before = node.reader.digests()
    old = files(node)
    assert node.rebuild().compared
    assert files(node) == [current_generation(link).name] != old  # type: ignore[union-attr]
    assert node.reader.digests() == before
    say(node, 6)
    assert node.reader.digests().position == node.log.head().position


@pytest.mark.parametrize(
    ("damage", "table"),
    [
        ("UPDATE fact_rows SET base_confidence=0.9 WHERE rowid=2", "fact_rows"),
        ("UPDATE fact_rows SET garden_id='g' WHERE rowid=2", "fact_rows"),
        ("DELETE FROM cards", "cards"),
        ("INSERT INTO key_sources VALUES ('agent:b', 3)", "key_sources"),
    ],
)
def test_rows_that_are_not_from_the_log_are_found(node: Node, damage: str, table: str) -> None:
    old = files(node)
    node.writer.exclusive(lambda: node.writer.store.db.execute(damage)).result()
    with pytest.raises(DigestMismatch, match=table) as found:
        node.rebuild()
    assert found.value.tables == [table]
    assert files(node) == old
    say(node, 6)


def test_a_projector_that_halts_leaves_the_old_tables_in_use(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, before = files(node), node.reader.digests()

    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    with monkeypatch.context() as patch:
        patch.setattr(FactsProjector, "apply", poison)
        with pytest.raises(ProjectorHalted, match="facts"):
            node.rebuild()
    assert files(node) == old
    assert node.reader.digests() == before
    assert status_of_node(node)["degraded"] is None
    say(node, 6)


def test_a_replay_ends_although_every_projector_has_halted(node: Node) -> None:
    head = node.log.head().position
    link = node.directory.projections_path
    path = new_generation(link)
    ProjectionStore(link, path).close()
    with closing(open_writer(path)) as db:
        db.execute("UPDATE checkpoints SET halted='broken'")
    with closing(ProjectionStore(link, path, history=node.log)) as store:
        assert replay_into(store, node.log, head, tolerant=True) == head


def test_a_replay_reads_pages_of_bounded_bytes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    head, link = node.log.head().position, node.directory.projections_path
    for page_bytes, pages in ((1, [1] * head), (rebuild.PAGE_BYTES, [head])):
        monkeypatch.setattr(rebuild, "PAGE_BYTES", page_bytes)
        read: list[int] = []
        with closing(ProjectionStore(link, new_generation(link), history=node.log)) as store:
            replay_into(store, node.log, head, applied=lambda page: read.append(len(page)))  # noqa: B023
            assert compute_digests(store.db).local == node.reader.digests().local
        assert read == pages


def test_a_writer_that_is_too_busy_to_swap_leaves_the_old_tables_in_use(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = files(node)
    with monkeypatch.context() as patch:
        patch.setattr("engramlog.projections.writing.writer.WAITING_SUBMISSIONS_MAX", 0)
        with pytest.raises(WriterBusy):
            node.rebuild()
    assert files(node) == old
    say(node, 6)
    assert node.rebuild().compared


def test_a_folder_that_cannot_be_synced_at_the_swap_leaves_the_old_tables_in_use(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link has moved already; readers and erasures must find the old tables again."""
    link = node.directory.projections_path
    old = files(node)
    with monkeypatch.context() as patch:

        def fail(_: Path) -> None:
            raise OSError(24, "Too many open files")

        patch.setattr("engramlog.projections.tables.store.sync_folder", fail)
        with pytest.raises(OSError, match="Too many"):
            node.rebuild()
    assert [current_generation(link).name] == files(node) == old  # type: ignore[union-attr]
    say(node, 6)
    with closing(open_reader(link)) as db:
        node.reader.image.tail.settle()
        assert tables_position(db) == node.log.head().position
    assert node.rebuild().compared


def test_a_key_revoked_right_after_the_swap_opens_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer next reads keys from the new file, however late the rebuild ends."""
    digest = "ab" * 32
    issue = KeyIssued(
        key_id=str(uuid4()),
        entity_uri="agent:a",
        permissions=[],
        key_sha256=digest,
        scopes=[],
    )
    (issued,) = node.write(issue)
    assert isinstance(issued, Done)
    with node.reader.pool.connection():
        pass  # an idle connection to the old file waits in the pool
    assert node.reader.keys.lookup(digest, 0) is not None

    def revoke(*_: Path) -> None:
        node.write(KeyRevoked(key_id=issued.detail["key_id"]))

    monkeypatch.setattr("engramlog.replay.rebuild.remove_database", revoke)
    node.rebuild()
    assert node.reader.keys.lookup(digest, 0) is None


def test_a_rebuild_under_writing_threads_loses_nothing(node: Node) -> None:
    stop = threading.Event()
    written: list[list[str]] = [[], []]

    def keep_writing(mine: list[str], source: str) -> None:
        while not stop.is_set():
            value = Value("string", f"{source} {len(mine)}")
            (outcome,) = node.write(asserted(value=value, source=source, relation="tag:x"))
            assert isinstance(outcome, Done)
            mine.append(str(outcome.fact_id))
            found = node.reader.slot_of(mine[-1])
            assert found is not None
            position = outcome.position
            assert position is not None
            assert [row.id for row in node.reader.rows([position])] == [mine[-1]], "own write"

    threads = [
        threading.Thread(target=keep_writing, args=(mine, f"agent:{number}"))
        for number, mine in enumerate(written)
    ]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert node.rebuild().compared
    stop.set()
    for thread in threads:
        thread.join()
    assert all(written)
    served = node.reader.digests()
    assert node.rebuild().digest == served.local
    with node.reader.pool.connection() as db:
        assert compute_digests(db) == served
        stored = {str(row[0]) for row in db.execute("SELECT id FROM facts")}
    assert stored >= {fact for mine in written for fact in mine}


@pytest.mark.parametrize(
    "damage",
    [
        "emptied",
        "cut in half",
        "overwritten",
        "of another log",
    ],
)
def test_a_damaged_file_of_tables_is_made_again(tmp_path: Path, damage: str) -> None:
    """The tables are a view of the log: after any damage they are made again."""
    node = Node.open(tmp_path / "data")
    other = Node.open(tmp_path / "other")
    say(node, 1)
    say(other, 2)  # as many events as the first
    digests = node.reader.digests()
    file, foreign = (current_generation(each.directory.projections_path) for each in (node, other))
    assert file is not None
    assert foreign is not None
    node.close()
    other.close()
    match damage:
        case "emptied":
            file.write_bytes(b"")
        case "cut in half":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        case "overwritten":
            file.write_bytes(b"not a database at all" * 1_000)
        case _:
            shutil.copy(foreign, file)
    node = Node.open(tmp_path / "data")
    assert node.reader.digests() == digests
    assert len(node.reader.image.facts.slot_of) == 1
    node.close()


def rewrite(node: Node) -> None:
    link = node.directory.projections_path
    rewrite_serving(link, node.log, node.writer, node.reader.pool.reopen)


@pytest.mark.parametrize("beside", ["a write", "a rebuild"])
def test_clean_tables_take_over_whatever_happens_while_they_are_made(
    node: Node, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    written, old = rebuild.write_clean, files(node)

    def writing(source: Path, target: Path) -> None:
        written(source, target)
        say(node, 6)
        if beside == "a rebuild":
            assert node.rebuild().compared

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "write_clean", writing)
        rewrite(node)
    link = node.directory.projections_path
    assert files(node) == [current_generation(link).name] != old  # type: ignore[union-attr]
    assert node.reader.digests().position == node.log.head().position
    say(node, 7)
    assert node.rebuild().compared


@pytest.mark.parametrize("failing", ["write_clean", "sync_file", "point_link"])
def test_clean_tables_that_cannot_be_made_leave_the_old_ones_in_use(
    node: Node, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    old = files(node)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, failing, fail)
        with pytest.raises(OSError, match="no space left"):
            rewrite(node)
    assert files(node) == old
    say(node, 6)
    assert node.rebuild().compared


def test_a_rebuild_takes_no_name_of_clean_tables_under_construction(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, begun = rebuild.write_clean, rebuild.digest_tables
    clean: list[Path] = []

    def writing(source: Path, target: Path) -> None:
        def digesting(db: apsw.Connection) -> TableDigests:
            monkeypatch.setattr(rebuild, "digest_tables", begun)
            written(source, target)  # while the rebuild has its own file open
            clean.append(target)
            return begun(db)

        monkeypatch.setattr(rebuild, "digest_tables", digesting)
        assert node.rebuild().compared

    monkeypatch.setattr(rebuild, "write_clean", writing)
    rewrite(node)
    assert clean
    link = node.directory.projections_path
    assert files(node) == [current_generation(link).name]  # type: ignore[union-attr]
    say(node, 6)
    assert node.rebuild().compared


@pytest.mark.parametrize("made", ["rebuilt", "rewritten"])
def test_tables_that_cannot_be_opened_to_take_over_leave_no_file(
    node: Node, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    old, opened = files(node), ProjectionStore.__init__

    def opening(*args: Any, bulk: bool = False, **rest: Any) -> None:
        if not bulk:
            raise apsw.FullError("database or disk is full")
        opened(*args, bulk=bulk, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(ProjectionStore, "__init__", opening)
        with pytest.raises((apsw.FullError, StorageFull)):
            node.rebuild() if made == "rebuilt" else rewrite(node)
    assert files(node) == old
    rewrite(node)


def test_a_snapshot_that_cannot_be_copied_leaves_no_file(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = files(node)

    def fail(*_: object) -> None:
        raise StorageFull("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "copy_newest", fail)
        with pytest.raises(StorageFull):
            node.rebuild()
    assert files(node) == old


@pytest.mark.parametrize("without", ["nothing", "the generation"])
def test_tables_in_the_place_of_their_link_get_one(
    node: Node, tmp_path: Path, without: str
) -> None:
    node.close()
    copy = tmp_path / "copy"
    shutil.copytree(node.directory.path, copy)  # follows links
    HeldDirectory.accept_copy(copy)
    link = copy / "projections.db"
    assert not link.is_symlink()
    if without == "the generation":
        (copy / files(node)[0]).unlink()
    copied = Node.open(copy)
    try:
        assert link.is_symlink()
        assert len(copied.reader.image.facts.slot_of) == 5
        assert copied.rebuild().compared
        rewrite(copied)
        assert files(copied) == [current_generation(link).name]  # type: ignore[union-attr]
        say(copied, 6)
        assert copied.reader.digests().position == copied.log.head().position
        assert [path.name for path in copy.glob("projections.db*")] == ["projections.db"]
    finally:
        copied.close()
