"""A file of named arrays: written once, checked on opening, mapped into memory.

Maps are copy-on-write: a process may write into its arrays without changing the file or other
processes; unwritten pages are shared. An array may have room after it: zero bytes that take no
space in the file.

The sections come first, then a document with the place and checksum of each, then the document's
place, its digest and a mark. A file that lacks any of these is torn and is not opened.
"""

from __future__ import annotations

import errno
import gc
import mmap
import os
import shutil
import time
import weakref
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.eventlog.durable_file import sync

MARK = b"engramlog image\n"
ALIGNMENT = 64
PART_BYTES = 1 << 24
"""Bytes summed in one step; other threads run between steps."""
CHECKING_THREADS = 2
SPARE_BYTES = 64 << 20
"""Disk space that these files leave free: they can be made again, the log's disk must not fill."""
HELD_LOOKS = 100
HELD_SECONDS = 0.1
_TAIL = len(MARK) + 2 * 8 + 32


class SealedFault(Exception):
    """A file is torn, damaged, or of another kind."""


class Laid(Struct, frozen=True):
    """An array to write. ``room``: its number of elements when mapped; zeros fill it."""

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
    """Write a file and make it durable. Raises OSError: writing failed, or would leave less than
    ``SPARE_BYTES`` for the log."""
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
        sync(file.fileno())


class Sections:
    """The arrays of one file, from ``open_sections``."""

    def __init__(self, data: mmap.mmap, contents: _Contents) -> None:
        self._data = data
        self._contents = contents

    @property
    def document(self) -> bytes:
        return self._contents.document

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """An array in its written length, read-only. Raises SealedFault if it does not exist."""
        array = self.roomy(name)[: self._place(name).length]
        array.flags.writeable = False
        return array

    def roomy(self, name: str) -> np.ndarray[Any, Any]:
        """The array with its room, writable."""
        place = self._place(name)
        return np.frombuffer(self._data, place.kind, place.room, place.offset)

    def private(self) -> Sections:
        """A copy in this process's memory, as written."""
        copy = mmap.mmap(-1, len(self._data))
        for place in self._contents.sections.values():
            end = place.offset + place.length * np.dtype(place.kind).itemsize
            copy[place.offset : end] = memoryview(self._data)[place.offset : end]
        return Sections(copy, self._contents)

    def held(self) -> weakref.ref[mmap.mmap]:
        """A reference that lives as long as anything uses the map."""
        return weakref.ref(self._data)

    def check(self) -> None:
        """Read everything. Raises SealedFault if a section has changed."""
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
    """Map a file; a section is read on first use or by ``check``. Raises OSError: it cannot be
    read. SealedFault: it is not a complete file of sections."""
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


def released(held: Iterable[Callable[[], object | None]]) -> bool:
    """Whether nothing uses the maps any more, given what ``Sections.held`` returned; waits up to
    ten seconds for it."""
    for _ in range(HELD_LOOKS):
        if all(each() is None for each in held):
            return True
        gc.collect()  # finished readers may have left cycles that refer to it
        time.sleep(HELD_SECONDS)
    return False


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    # An empty view cannot be cast.
    return memoryview(np.ascontiguousarray(array)).cast("B") if len(array) else memoryview(b"")


def _crc32(data: memoryview) -> int:
    total = 0
    for start in range(0, len(data), PART_BYTES):
        total = zlib.crc32(data[start : start + PART_BYTES], total)
    return total
