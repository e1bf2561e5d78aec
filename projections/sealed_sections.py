"""A file of named arrays that is written once, checked when it is opened, and mapped into memory.

Maps are copy-on-write: a process may write into its arrays, which changes no file and nothing
that another process sees; unwritten pages are shared. Behind an array there may be room,
zero bytes that take no space in the file.

The sections come first; then a document that says where each lies and what it sums to; then its
place, its digest and a mark. A file without all of that is torn, and is not opened.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import weakref
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

MARK = b"engramlog image\n"
ALIGNMENT = 64
PART_BYTES = 1 << 24
"""Bytes summed in one go; other threads run meanwhile."""
CHECKING_THREADS = 2
SPARE_BYTES = 64 << 20
"""Space that these files leave: what can be made again does not fill the disk of the log."""
_TAIL = len(MARK) + 2 * 8 + 32


class SealedFault(Exception):
    """A file is torn, damaged, or of another kind."""


class Laid(Struct, frozen=True):
    """An array to be written. ``room``: how many elements it is to have when it is mapped,
    those behind its own being zero."""

    name: str
    array: np.ndarray[Any, Any]
    room: int = 0


class _Place(Struct, frozen=True):
    kind: str
    length: int
    room: int
    offset: int
    crc32: int


class _Contents(Struct, frozen=True):
    document: bytes
    sections: dict[str, _Place]


def write_sections(path: Path, document: bytes, sections: Iterable[Laid]) -> None:
    """Write a file and make it durable.

    Raises:
        OSError: it cannot be written, or would leave less than ``SPARE_BYTES`` for the log.
    """
    places: dict[str, _Place] = {}
    with path.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        end = 0
        for laid in sections:
            data = _bytes_of(laid.array)
            if shutil.disk_usage(path.parent).free < len(data) + SPARE_BYTES:
                raise OSError(errno.ENOSPC, "the space left is for the log", str(path))
            offset = -(-end // ALIGNMENT) * ALIGNMENT
            file.seek(offset)
            file.write(data)
            room = max(laid.room, len(laid.array))
            places[laid.name] = _Place(
                laid.array.dtype.str, len(laid.array), room, offset, _crc32(data)
            )
            end = offset + room * laid.array.dtype.itemsize
        contents = msgspec.msgpack.encode(_Contents(document, places))
        file.seek(end)
        file.write(contents)
        file.write(len(contents).to_bytes(8, "big") + end.to_bytes(8, "big"))
        file.write(sha256(contents).digest() + MARK)
        file.flush()
        os.fsync(file.fileno())


class Sections:
    """The arrays of one file. Made by ``open_sections``."""

    def __init__(self, data: mmap.mmap, contents: _Contents) -> None:
        self._data = data
        self._contents = contents

    @property
    def document(self) -> bytes:
        return self._contents.document

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """An array as long as it was written, to be read. Raises SealedFault if there is
        none."""
        array = self.roomy(name)[: self._place(name).length]
        array.flags.writeable = False
        return array

    def roomy(self, name: str) -> np.ndarray[Any, Any]:
        """The same with the room behind it, to be written as well."""
        place = self._place(name)
        return np.frombuffer(self._data, place.kind, place.room, place.offset)

    def private(self) -> Sections:
        """The same in memory of this process alone, as it was written."""
        copy = mmap.mmap(-1, len(self._data))
        for place in self._contents.sections.values():
            end = place.offset + place.length * np.dtype(place.kind).itemsize
            copy[place.offset : end] = memoryview(self._data)[place.offset : end]
        return Sections(copy, self._contents)

    def held(self) -> weakref.ref[mmap.mmap]:
        """What is alive for as long as anything refers to the map."""
        return weakref.ref(self._data)

    def check(self) -> None:
        """Read everything. Raises SealedFault if a section is not as it was written."""
        view = memoryview(self._data)

        def wrong(place: _Place) -> bool:
            end = place.offset + place.length * np.dtype(place.kind).itemsize
            return _crc32(view[place.offset : end]) != place.crc32

        largest_first = sorted(self._contents.sections.values(), key=lambda place: -place.length)
        with ThreadPoolExecutor(CHECKING_THREADS) as pool:
            if any(list(pool.map(wrong, largest_first))):
                raise SealedFault("a section is not as it was written")

    def _place(self, name: str) -> _Place:
        try:
            return self._contents.sections[name]
        except KeyError:
            raise SealedFault(f"there is no section {name}") from None


def open_sections(path: Path) -> Sections:
    """Map a file; its sections are not read before they are asked for, or checked.

    Raises:
        OSError: it cannot be read.
        SealedFault: it is not a whole file of sections.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _TAIL:
            raise SealedFault("it is cut off")
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    tail = data[size - _TAIL :]
    length, start = int.from_bytes(tail[:8], "big"), int.from_bytes(tail[8:16], "big")
    if tail[48:] != MARK or start + length + _TAIL != size:
        raise SealedFault("it is cut off")
    contents = data[start : start + length]
    if sha256(contents).digest() != tail[16:48]:
        raise SealedFault("its contents are not as they were written")
    try:
        return Sections(data, msgspec.msgpack.decode(contents, type=_Contents))
    except msgspec.MsgspecError as fault:
        raise SealedFault(f"its contents cannot be read: {fault}") from fault


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    # A view of nothing cannot be cast.
    return memoryview(np.ascontiguousarray(array)).cast("B") if len(array) else memoryview(b"")


def _crc32(data: memoryview) -> int:
    total = 0
    for start in range(0, len(data), PART_BYTES):
        total = zlib.crc32(data[start : start + PART_BYTES], total)
    return total
