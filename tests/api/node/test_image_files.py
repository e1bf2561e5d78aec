"""A node starts from the files of its memory image, and an erasure removes them."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.tasks import upkeep
from engramlog.api.node.tasks.erasure_cleaning import cleaner_of
from engramlog.api.node.tasks.upkeep import ImageWriting
from engramlog.eventlog.kinds import Value
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.image.files import FOLDER
from engramlog.projections.image.image import ImageCut, MemoryImage
from engramlog.projections.sealed_sections import Laid
from engramlog.projections.writing.commands import (
    AssertFact,
    EraseFacts,
    RetractFact,
    SetAttributes,
)
from tests.worlds.data_files import files_with
from tests.worlds.histories import asserted
from tests.worlds.image_contents import contents

SECRET = "xylophone-quagga-7741"
KILLED = """
import os, signal, sys
from pathlib import Path
from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from tests.worlds.histories import asserted
node = Node.open(Path(sys.argv[1]))
node.write(*[asserted(value=Value("string", "later %d" % n)) for n in range(5)])
Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
node.kept_image.write()
"""


@pytest.fixture(autouse=True)
def every_event_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engramlog.replay.kept_image.CLOSING_LAG_MIN", 1)


def facts(word: str, count: int = 20) -> list[AssertFact]:
    return [
        asserted(entity=f"user:{word}{number % 3}", value=Value("string", f"{word} {number}"))
        for number in range(count)
    ]


def assert_as_from_the_tables(node: Node) -> None:
    loaded = MemoryImage()
    with node.reader.pool.connection() as db:
        loaded.load(db, node.reader.image.position)
    assert contents(node.reader.image) == contents(loaded)


def from_files(data: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """An open node that did not read its tables for the memory image."""
    with monkeypatch.context() as patched:
        patched.setattr(MemoryImage, "load", lambda *_: pytest.fail("the tables were read"))
        return Node.open(data)


def test_a_node_starts_from_the_files_that_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node.open(tmp_path)
    for round_ in range(3):
        node.write(*facts(f"w{round_}"))
        node.close()
        node = from_files(tmp_path, monkeypatch)
        assert node.kept_image.lag() == 0
        assert node.reader.pin().count == 20 * (round_ + 1)
        assert_as_from_the_tables(node)
    node.close()
    assert len(list((tmp_path / FOLDER).iterdir())) == 1


def test_a_close_writes_no_files_that_save_less_than_they_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node.open(tmp_path)
    node.write(*facts("first", 80))
    node.kept_image.write()
    (before,) = (tmp_path / FOLDER).iterdir()
    node.write(*facts("later", 10))
    node.close()
    assert list((tmp_path / FOLDER).iterdir()) == [before]
    node = from_files(tmp_path, monkeypatch)
    assert node.reader.pin().count == 90
    node.write(*facts("last", 10))
    node.close()
    assert list((tmp_path / FOLDER).iterdir()) != [before]


def test_later_events_are_folded_and_a_killed_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node.open(tmp_path)
    node.write(*facts("first"))
    node.close()
    (before,) = (tmp_path / FOLDER).iterdir()
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == {before.name, "unfinished"}
    node = from_files(tmp_path, monkeypatch)
    assert node.reader.pin().count == 25
    assert node.kept_image.lag() == 5
    assert_as_from_the_tables(node)
    node.close()
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] != [before.name]


def test_a_damaged_file_costs_time_and_nothing_else(tmp_path: Path) -> None:
    node = Node.open(tmp_path)
    node.write(*facts("first"))
    node.close()
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    node = Node.open(tmp_path)
    try:
        assert node.reader.pin().count == 20
        assert_as_from_the_tables(node)
    finally:
        node.close()


def test_an_erasure_leaves_no_file_and_no_map_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node.open(tmp_path)
    node.write(*facts("first"), asserted(entity=f"user:{SECRET}", value=Value("string", SECRET)))
    fact = list(node.reader.image.facts.slot_of)[-1]
    node.close()
    node = from_files(tmp_path, monkeypatch)
    archive = Archive(node.directory, node.log)
    try:
        assert len(files_with(tmp_path / FOLDER, SECRET.encode())) == 1
        assert mapped(tmp_path)
        node.write(EraseFacts(erasure_id="e", fact_ids=(fact,)))
        cleaner_of(node, archive, AuditDesk(archive)).clean()
        assert not mapped(tmp_path)
        assert list((tmp_path / FOLDER).iterdir()) == []
        assert_as_from_the_tables(node)
        assert node.kept_image.write() == node.log.head().position
        assert not files_with(tmp_path, SECRET.encode()), (
            "what is written after that is clean as well"
        )
        assert not files_with(tmp_path, b"xylophone"), "its words are not kept either"
    finally:
        node.close()
    from_files(tmp_path, monkeypatch).close()


def mapped(data: Path) -> bool:
    """Whether this process has a file of the memory image mapped, removed or not."""
    return str(data / FOLDER) in Path("/proc/self/maps").read_text()


def test_events_during_the_write_are_not_in_the_file(tmp_path: Path) -> None:
    """The position is fixed before anything large is written, and writes continue."""
    node = Node.open(tmp_path)
    node.write(*facts("first"))
    ids = list(node.reader.image.facts.slot_of)
    at = node.log.head().position
    sections = node.reader.image.sections

    def meanwhile(cut: ImageCut) -> Iterator[Laid]:
        node.write(*facts("second"), *facts("first"))
        node.write(RetractFact(fact_id=ids[3]))
        secret = {"classification": 3}
        node.write(SetAttributes(fact_id=ids[4], changes=secret))
        for laid in sections(cut):
            node.write(*facts(laid.name, 1))
            yield laid

    node.reader.image.sections = meanwhile  # type: ignore[method-assign]
    try:
        assert node.kept_image.write() == at
        restored = node.kept_image.files.restored(node.log)
        assert restored is not None
        followed = MemoryImage()
        followed.apply(node.log.read(0, at), at)
        assert contents(restored) == contents(followed)
        tail = node.log.read(at, 10_000)
        restored.apply(tail, tail[-1].position)
        assert contents(restored) == contents(node.reader.image)
    finally:
        del node.reader.image.sections
        node.close()


def test_the_task_writes_once_the_files_are_far_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LAG_MIN", 30)
    node = Node.open(tmp_path)
    task = ImageWriting(node)
    try:
        node.write(*facts("first"))
        task.write_due()
        assert node.kept_image.files.position == 0
        node.write(*facts("second"))
        task.write_due()
        assert node.kept_image.lag() == 0
        node.write(*facts("third", 1))
        assert node.kept_image.lag() == 1
        monkeypatch.setattr(node.writer, "degraded", "for this test")
        assert node.kept_image.lag() == 0, "what does not follow the log is not written"
    finally:
        node.close()


def test_an_erasure_cancels_the_write_of_its_facts(tmp_path: Path) -> None:
    node = Node.open(tmp_path)
    node.write(*facts("first"))
    fact = next(iter(node.reader.image.facts.slot_of))
    sections = node.reader.image.sections

    def overtaken(cut: object) -> object:
        node.write(EraseFacts(erasure_id="e", fact_ids=(fact,)))
        return sections(cut)  # type: ignore[arg-type]

    node.reader.image.sections = overtaken  # type: ignore[method-assign,assignment]
    try:
        assert node.kept_image.write() is None
        assert list((tmp_path / FOLDER).iterdir()) == []
    finally:
        del node.reader.image.sections
        node.close()


def test_a_file_of_no_use_is_replaced_when_the_node_closes(tmp_path: Path) -> None:
    node = Node.open(tmp_path)
    node.write(*facts("kept"))
    node.close()
    (file,) = (tmp_path / FOLDER).iterdir()
    whole = file.stat().st_size
    file.write_bytes(file.read_bytes()[: whole // 2])
    Node.open(tmp_path).close()
    (again,) = (tmp_path / FOLDER).iterdir()
    assert again.stat().st_size >= whole
