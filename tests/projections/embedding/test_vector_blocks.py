"""Blocks of vectors in files: the vectors as written, or not used."""

import threading
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import Value
from engramlog.projections.arrays import F32, I32, I64
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.embedding.vectors import blocks as blocks_module
from engramlog.projections.embedding.vectors import in_memory as vectors_module
from engramlog.projections.embedding.vectors.blocks import VectorBlocks
from engramlog.projections.embedding.vectors.in_memory import VectorBlock, Vectors
from tests.worlds.histories import START_US, asserted

SLOTS = 16
DIMENSIONS = 8
FACTS = 40
SPACE = Space("none", "made up", DIMENSIONS)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[Node, None, None]:
    opened = Node.open(tmp_path_factory.mktemp("blocks"), clock=FixedClock(START_US))
    opened.write(*[asserted(value=Value("string", f"v{number}")) for number in range(FACTS)])
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (vectors_module, blocks_module):
        monkeypatch.setattr(module, "BLOCK_SLOTS", SLOTS)
    monkeypatch.setattr(blocks_module, "GAIN", 2)


def unit_rows(count: int) -> F32:
    rows = np.random.default_rng(5).standard_normal((count, DIMENSIONS)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


ROWS = unit_rows(FACTS)
ALL: I32 = np.arange(FACTS, dtype=np.int32)


def starts(node: Node) -> I64:
    return node.reader.pin().from_position


def filled(slots: I32 = ALL) -> Vectors:
    vectors = Vectors(DIMENSIONS)
    vectors.put(slots, ROWS[slots])
    return vectors


def restored(folder: Path, node: Node, at: I64 | None = None) -> Vectors:
    vectors = Vectors(DIMENSIONS)
    VectorBlocks(folder, SPACE, node.log).restore(vectors, starts(node) if at is None else at)
    return vectors


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def test_full_blocks_come_back_as_they_were(tmp_path: Path, node: Node) -> None:
    folder = tmp_path / "some.blocks"
    some = np.delete(ALL, [3, 17])
    VectorBlocks(folder, SPACE, node.log).write(filled(some), starts(node))
    assert names(folder) == ["00000000.block", "00000001.block"]
    vectors = restored(folder, node)
    held = some[some < 2 * SLOTS]
    assert np.flatnonzero(vectors.present(ALL)).tolist() == held.tolist()
    assert vectors.rows(ALL)[0][held].tobytes() == ROWS[held].tobytes()
    query = ROWS[5]
    assert vectors.cosines(query, held)[0].tolist() == filled().cosines(query, held)[0].tolist()
    assert vectors.likely(query, held, 4).tolist() == filled().likely(query, held, 4).tolist()
    vectors.put(ALL, ROWS)
    assert vectors.rows(ALL)[0].tobytes() == ROWS.tobytes()
    assert restored(folder, node).rows(ALL)[1].sum() == len(held), "a map changes no file"


def test_a_block_that_does_not_fit_is_not_used(tmp_path: Path, node: Node) -> None:
    folder = tmp_path / "some.blocks"
    VectorBlocks(folder, SPACE, node.log).write(filled(), starts(node))
    moved = starts(node).copy()
    moved[5] += 1
    assert len(restored(folder, node, moved)) == SLOTS, "another fact has a slot of the first"
    assert len(restored(folder, node, starts(node)[: SLOTS + 3])) == SLOTS, "some facts are unknown"
    other = VectorBlocks(folder, Space("none", "another", DIMENSIONS), node.log)
    assert not other.restore(Vectors(DIMENSIONS), starts(node))
    path = folder / "00000001.block"
    whole = path.read_bytes()
    for torn in (b"", whole[:100], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        path.write_bytes(torn)
        assert len(restored(folder, node)) == SLOTS


def test_a_block_that_gained_much_is_rewritten(tmp_path: Path, node: Node) -> None:
    folder = tmp_path / "some.blocks"
    blocks, vectors = VectorBlocks(folder, SPACE, node.log), filled(ALL[:10])
    blocks.write(vectors, starts(node))
    for gained, kept in (([10], 10), ([11], 12)):
        vectors.put(ALL[gained], ROWS[gained])
        blocks.write(vectors, starts(node))
        assert len(restored(folder, node)) == kept


def test_forgotten_vectors_are_in_no_file_and_no_map(tmp_path: Path, node: Node) -> None:
    folder = tmp_path / "some.blocks"
    VectorBlocks(folder, SPACE, node.log).write(filled(), starts(node))
    (folder / "00000007.block").write_bytes(b"of another life")
    blocks, vectors = VectorBlocks(folder, SPACE, node.log), Vectors(DIMENSIONS)
    blocks.restore(vectors, starts(node))
    vectors.forget(ALL[[2]])
    blocks.discard_forgotten(vectors)
    assert names(folder) == ["00000001.block"]
    maps = Path("/proc/self/maps").read_text()
    assert f"{folder}/00000001.block" in maps
    assert f"{folder}/00000000.block" not in maps
    assert np.flatnonzero(vectors.present(ALL[:SLOTS])).tolist() == [0, 1, *range(3, SLOTS)]
    blocks.write(vectors, starts(node))
    assert names(folder) == ["00000000.block", "00000001.block"]
    assert ROWS[2].tobytes() not in (folder / "00000000.block").read_bytes()
    assert vectors.rows(ALL[:SLOTS])[0][5].tobytes() == ROWS[5].tobytes()


def test_a_vector_erased_while_its_block_is_copied_is_in_no_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors = filled()
    erasing = threading.Thread(target=vectors.forget, args=(ALL[[2]],))
    copied: list[VectorBlock] = []

    class Interrupted(VectorBlock, frozen=True):
        def __post_init__(self) -> None:
            copied.append(self)
            if len(copied) == 2:  # the block itself, then its copy
                erasing.start()
                erasing.join(0.1)

    monkeypatch.setattr(vectors_module, "VectorBlock", Interrupted)
    vectors.make_private(0)
    erasing.join()
    assert not copied[1].rows[2].any()
    assert copied[1].rows[3].any()
