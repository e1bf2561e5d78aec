"""Blocks of vectors in files: nodes start from them and recall workers share them.

``vectors-SPACE.blocks/NUMBER.block`` in the data directory holds the rows of one full block of
slots, their sketch, and which of them are vectors. It also holds the positions of these slots'
facts and the hash of the last one's event: a block is used only if the log and the memory image
still agree with it. All of it can be embedded again.

A full block hardly changes, so each is written once, and again after it gained much. A block that
lost a vector to an erasure is removed, then written again.
"""

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.eventlog.durable_file import sync_folder
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.log import ReadableLog, holds_event
from engramlog.projections.arrays import I64
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.embedding.vectors.in_memory import BLOCK_SLOTS, VectorBlock, Vectors
from engramlog.projections.sealed_sections import (
    Laid,
    SealedFault,
    Sections,
    open_sections,
    released,
    write_sections,
)

SUFFIX = ".block"
FORMAT = 1
GAIN = BLOCK_SLOTS // 16
"""A block is written again after it gained this many vectors."""

_log = logging.getLogger(__name__)


class BlockSeal(Struct, frozen=True):
    """The identity of a file. ``hash``: that of the block's last fact's event."""

    format: int
    space: Space
    number: int
    hash: bytes


class _Written(Struct, frozen=True):
    """A file's content as written or mapped here. ``held`` gives None once nothing uses the map."""

    vectors: int
    forgotten: int
    held: Callable[[], object | None] = lambda: None


class VectorBlocks:
    """The files of one space. One process writes and removes them, others read. Writing and
    removing exclude each other."""

    def __init__(self, folder: Path, space: Space, log: ReadableLog) -> None:
        self._folder = folder
        self._space = space
        self._log = log
        self._lock = threading.Lock()
        self._written: dict[int, _Written] = {}

    def restore(self, vectors: Vectors, starts: I64) -> bool:
        """Load valid blocks into empty vectors; returns whether any was valid. Removes nothing.
        ``starts``: positions of the facts, by slot."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            number = int(path.stem)
            try:
                sections = self._opened(number, starts)
            except (OSError, SealedFault, msgspec.MsgspecError) as fault:
                _log.warning("vectors of block %d are read from the table: %s", number, fault)
                continue
            block = _block(sections, vectors.dimensions)
            vectors.take(number, block)
            self._written[number] = _Written(
                int(np.count_nonzero(block.present)), vectors.forgotten(number), sections.held()
            )
        return bool(self._written)

    def write(self, vectors: Vectors, starts: I64) -> None:
        """Write the full blocks without a file or with an outdated one. Raises OSError."""
        for number in range(len(starts) // BLOCK_SLOTS):
            with self._lock:
                block = vectors.block(number)
                if block is not None and self._needs_writing(vectors, number, block):
                    self._write(vectors, number, block, starts)

    def discard_forgotten(self, vectors: Vectors) -> None:
        """Remove the files with a vector that was forgotten since, and all files that this process
        does not use; release mapped ones. Raises OSError: a file cannot be removed. StorageFailed:
        a running request still reads one."""
        with self._lock:
            known = self._written.items()
            stale = [n for n, each in known if each.forgotten != vectors.forgotten(n)]
            kept = {self._path(number) for number in self._written.keys() - set(stale)}
            removed = [each for each in self._folder.glob("*") if each not in kept]
            for path in removed:
                path.unlink(missing_ok=True)
            if removed:
                sync_folder(self._folder)
            for number in stale:
                vectors.make_private(number)
            if not released([self._written.pop(number).held for number in stale]):
                raise StorageFailed("a removed file of vectors is still being read")

    def _needs_writing(self, vectors: Vectors, number: int, block: VectorBlock) -> bool:
        written = self._written.get(number)
        if written is None or written.forgotten != vectors.forgotten(number):
            return True
        return int(np.count_nonzero(block.present)) >= written.vectors + GAIN

    def _write(self, vectors: Vectors, number: int, block: VectorBlock, starts: I64) -> None:
        """Write the file of one block, unless vectors of it were forgotten meanwhile. Raises
        OSError."""
        of_block = starts[number * BLOCK_SLOTS : (number + 1) * BLOCK_SLOTS]
        (event,) = self._log.read(int(of_block[-1]) - 1, 1)
        seal = BlockSeal(FORMAT, self._space, number, event.hash)
        forgotten, present = vectors.forgotten(number), block.present.copy()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        unfinished = self._path(number).with_suffix(".unfinished")
        try:
            write_sections(
                unfinished,
                msgspec.msgpack.encode(seal),
                [
                    Laid("rows", block.rows.reshape(-1)),
                    Laid("sketch", block.sketch.reshape(-1)),
                    Laid("present", present),
                    Laid("positions", of_block),
                ],
            )
            if forgotten == vectors.forgotten(number):
                unfinished.rename(self._path(number))
                sync_folder(self._folder)
                held = self._written[number].held if number in self._written else lambda: None
                count = int(np.count_nonzero(present))
                self._written[number] = _Written(count, forgotten, held)
        finally:
            unfinished.unlink(missing_ok=True)

    def _opened(self, number: int, starts: I64) -> Sections:
        """A checked block. Raises SealedFault if it is not valid here."""
        sections = open_sections(self._path(number))
        seal = msgspec.msgpack.decode(sections.document, type=BlockSeal)
        if (seal.format, seal.space, seal.number) != (FORMAT, self._space, number):
            raise SealedFault("it has another format, or vectors of another model")
        of_block = starts[number * BLOCK_SLOTS : (number + 1) * BLOCK_SLOTS]
        if not np.array_equal(sections.array("positions"), of_block):
            raise SealedFault("it has vectors of other facts")
        if not holds_event(self._log, int(of_block[-1]), seal.hash):
            raise SealedFault("its facts are not in this log")
        sections.check()
        return sections

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}{SUFFIX}"


def blocks_folder(table: Path) -> Path:
    return table.with_suffix(".blocks")


def remove_blocks(data: Path, kept: Path | None = None) -> None:
    """Remove the blocks of all tables of vectors in a data directory, except one."""
    for folder in data.glob("vectors-*.blocks"):
        if kept is None or folder != blocks_folder(kept):
            shutil.rmtree(folder, ignore_errors=True)


def _block(sections: Sections, dimensions: int) -> VectorBlock:
    return VectorBlock(
        sections.roomy("rows").reshape(BLOCK_SLOTS, dimensions),
        sections.roomy("sketch").reshape(-1, BLOCK_SLOTS),
        sections.array("present"),
    )
