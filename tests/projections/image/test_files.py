"""The memory image in files: equal to that from tables and from events, or not used."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.image import files as image_files
from engramlog.projections.image.files import FOLDER, ImageFiles
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.sealed_sections import SealedFault, open_sections
from tests.worlds.histories import START_US, Step, histories, live_through
from tests.worlds.image_contents import contents
from tests.worlds.replaying import QUICK, judged, lived


def sealed(node: Node, files: ImageFiles) -> int | None:
    return files.write(
        node.reader.image, node.log, lambda work: node.writer.exclusive(work).result()
    )


def caught_up(files: ImageFiles, node: Node) -> MemoryImage:
    image = files.restored(node.log)
    assert image is not None
    if events := node.log.read(image.position, 10_000):
        image.apply(events, events[-1].position)
    return image


def assert_alike(node: Node, image: MemoryImage) -> None:
    loaded = MemoryImage()
    with node.reader.pool.connection() as db:
        loaded.load(db, node.reader.image.position)
    assert image.position == loaded.position
    these, those = contents(image), contents(loaded)
    for part, expected in those.items():
        assert these[part] == expected, part
    for position in {0, image.position // 2, image.position}:
        moment = Moment(position, node.log.received_at(position))
        assert judged(View(image), moment) == judged(View(loaded), moment)


@given(histories(), st.lists(st.integers(0, 30), min_size=1, max_size=3))
@settings(QUICK, max_examples=12)  # each is loaded, folded and read from files
def test_an_image_from_files_is_the_one_from_the_tables_and_the_one_that_was_folded(
    steps: list[Step], cuts: list[int]
) -> None:
    """Written repeatedly, each time by a node that started from the previous file."""
    with tempfile.TemporaryDirectory() as folder, lived([]) as node:
        files = ImageFiles(Path(folder))
        begun = 0
        for cut in sorted({min(cut, len(steps)) for cut in cuts} | {len(steps)}):
            live_through(node, steps[begun:cut])
            begun = cut
            if files.position:
                image = caught_up(files, node)
                assert_alike(node, image)
                files.write(image, node.log)
            else:
                assert sealed(node, files) == node.log.head().position
            assert_alike(node, caught_up(files, node))
        image = caught_up(files, node)
        before = contents(image)
        held = image.unmap()
        assert contents(image) == before
        assert held() is None


@contextmanager
def remembering() -> Generator[tuple[Node, ImageFiles], None, None]:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder), clock=FixedClock(START_US), set_valued=["memory:a"])
        try:
            files = ImageFiles(Path(folder))
            assert sealed(node, files)
            yield node, files
        finally:
            node.close()


def only_file(node: Node) -> Path:
    (path,) = (node.directory.path / FOLDER).iterdir()
    return path


def test_a_file_that_is_torn_or_damaged_anywhere_is_not_used() -> None:
    with remembering() as (node, files):
        path = only_file(node)
        whole = path.read_bytes()
        assert files.restored(node.log) is not None
        # The zeros between sections belong to no section.
        spots = [at for at in range(0, len(whole), 997) if whole[at]]
        for at in [*spots, len(whole) - 40]:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert files.restored(node.log) is None, at
        for size in (0, 10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert files.restored(node.log) is None, size
        path.write_bytes(whole)
        assert files.restored(node.log) is not None


def test_a_file_of_other_code_another_log_or_another_position_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with remembering() as (node, files), lived([]) as other:
        assert files.restored(other.log) is None, "another log"
        assert caplog.records[-1].levelname == "WARNING"
        path = only_file(node)
        for position in (node.log.head().position + 1, 1):
            moved = path.rename(path.with_name(f"{position:020d}.image"))
            assert files.restored(node.log) is None, "not its position"
            path = moved
        path.rename(path.with_name(f"{node.log.head().position:020d}.image"))
        assert files.restored(node.log) is not None
        monkeypatch.setattr(image_files, "made_by", lambda: "another release")
        assert files.restored(node.log) is None
        assert caplog.records[-1].levelname == "INFO"  # an upgrade is no fault
        monkeypatch.undo()
        monkeypatch.setattr(image_files, "known_versions", lambda: {"facts": 99})
        assert files.restored(node.log) is None


def test_writes_into_a_map_change_no_file() -> None:
    with remembering() as (node, _):
        path = only_file(node)
        before = path.read_bytes()
        sections = open_sections(path)
        sections.roomy("crowded")[:] = True
        assert path.read_bytes() == before
        with pytest.raises(SealedFault):
            sections.array("none")
