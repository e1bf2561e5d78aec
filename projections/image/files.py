"""The memory image in a file: nodes start from it and recall workers share it.

``image/POSITION.image`` in the data directory holds the image at a position of the log. It is only
a copy: a torn, damaged or unfitting file is removed, and the image is loaded from the tables. An
erasure removes all files, so that no erased text survives in one.
"""

import logging
import sys
import threading
import unicodedata
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from engramlog.eventlog.durable_file import sync_folder
from engramlog.eventlog.log import ReadableLog, holds_event
from engramlog.projections.image.image import ImageCut, MemoryImage
from engramlog.projections.sealed_sections import (
    SealedFault,
    Sections,
    open_sections,
    write_sections,
)
from engramlog.projections.tables.file_state import known_versions

FOLDER = "image"
SUFFIX = ".image"
UNFINISHED = "unfinished"
_PACKAGES = Path(__file__).parents[2]
_SOURCES = ("eventlog", "projections")

_log = logging.getLogger(__name__)


class ImageSeal(Struct, frozen=True):
    """The identity of a file. ``hash``: that of the event at its position. ``made_by``: the code
    that made it; many columns are computed from texts by that code."""

    made_by: str
    versions: dict[str, int]
    hash: bytes
    cut: ImageCut


class _OtherRelease(SealedFault):
    """Another release made the file, as after an upgrade: no fault of the disk."""


class KeptImages:
    """The files of one data directory, for a process that only reads."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER

    @property
    def position(self) -> int:
        """The newest file's position; 0 without a file."""
        return max((int(path.stem) for path in self._files()), default=0)

    def restored(self, log: ReadableLog) -> MemoryImage | None:
        """An image from the newest file, at the file's position; None without a usable file.
        Removes nothing."""
        position = self.position
        if not position:
            return None
        try:
            sections = open_sections(self._path(position))
            cut = _checked_cut(sections, position, log)
            sections.check()
            image = MemoryImage()
            image.restore(cut, sections)
        except (OSError, SealedFault, msgspec.MsgspecError) as fault:
            level = logging.INFO if isinstance(fault, _OtherRelease) else logging.WARNING
            _log.log(level, "the image file at position %d is of no use: %s", position, fault)
            return None
        return image

    def _files(self) -> list[Path]:
        return [path for path in self._folder.glob(f"*{SUFFIX}") if path.stem.isdecimal()]

    def _path(self, position: int) -> Path:
        return self._folder / f"{position:020d}{SUFFIX}"


class ImageFiles(KeptImages):
    """The files of one data directory. Thread-safe: writing and removing exclude each other, so an
    erasure also removes a file under construction."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._lock = threading.Lock()

    def write(
        self,
        image: MemoryImage,
        log: ReadableLog,
        exclusive: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> int | None:
        """Write the present image, and remove older files; returns its position. Returns None and
        writes nothing if facts were erased meanwhile. ``exclusive``: runs a function in the
        writer's thread and returns its result. Raises OSError: a file cannot be written."""
        with self._lock:
            cut: ImageCut = exclusive(image.cut)
            (event,) = log.read(cut.position - 1, 1)
            seal = ImageSeal(made_by(), known_versions(), event.hash, cut)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._folder / UNFINISHED
            try:
                document = msgspec.msgpack.encode(seal)
                write_sections(unfinished, document, image.sections(cut))

                def put() -> int | None:
                    if image.erasures != cut.erasures:
                        return None
                    unfinished.rename(self._path(cut.position))
                    return cut.position

                position: int | None = exclusive(put)
            finally:
                unfinished.unlink(missing_ok=True)
            for path in self._files():
                if position is not None and int(path.stem) != position:
                    path.unlink(missing_ok=True)
            sync_folder(self._folder)
            return position

    def discard(self) -> None:
        """Remove every file, finished or not. Raises OSError."""
        with self._lock:
            if self._folder.exists():
                for path in self._folder.iterdir():
                    path.unlink(missing_ok=True)
                sync_folder(self._folder)


def _checked_cut(sections: Sections, position: int, log: ReadableLog) -> ImageCut:
    """The cut in a file. Raises SealedFault if it does not fit this release or this log."""
    seal = msgspec.msgpack.decode(sections.document, type=ImageSeal)
    if seal.made_by != made_by() or seal.versions != known_versions():
        raise _OtherRelease("another release made it")
    if seal.cut.position != position:
        raise SealedFault("it is the image of another position")
    if not holds_event(log, position, seal.hash):
        raise SealedFault("its last event is not in this log")
    return seal.cut


@cache
def made_by() -> str:
    """A digest of the code that makes an image: its modules and their imports."""
    digest = sha256(f"{sys.version} {sys.byteorder} {unicodedata.unidata_version}".encode())
    for name in _SOURCES:
        for path in sorted((_PACKAGES / name).rglob("*.py")):
            digest.update(str(path.relative_to(_PACKAGES)).encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()
