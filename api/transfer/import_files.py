"""The files of an import: the lines it reads, and the receipts it writes."""

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from engramlog.api.transfer.importing import FileBroken, RefusedLine, Written

LINE_BYTES_MAX = 16 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"


def read_lines(raw: IO[bytes]) -> Iterator[bytes]:
    """Lines of a plain or gzip stream, without a byte order mark. Raises FileBroken: a line exceeds
    16 MiB, or a gzip stream is damaged."""
    stream: IO[bytes] = raw
    peek = getattr(raw, "peek", None)
    if peek is not None and peek(2)[:2] == _GZIP_MAGIC:
        stream = gzip.GzipFile(fileobj=raw)  # pyright: ignore[reportAssignmentType]
    number = 0
    while True:
        try:
            text = stream.readline(LINE_BYTES_MAX + 1)
        except (EOFError, OSError, zlib.error) as fault:
            raise FileBroken(f"after line {number}: cannot read on: {fault}") from fault
        if not text:
            return
        number += 1
        if len(text) > LINE_BYTES_MAX:
            raise FileBroken(f"line {number}: is over {LINE_BYTES_MAX} bytes")
        yield text.removeprefix(BOM_UTF8) if number == 1 else text


class Receipts:
    """Writes one JSON object per line of the import: ``line``, ``status``, ``id``, ``position``."""

    def __init__(self, path: Path, *, append: bool) -> None:
        self._file = path.open("ab" if append else "wb")
        self._encode = msgspec.json.Encoder().encode

    def note(self, number: int, result: Written | RefusedLine) -> None:
        row: dict[str, object] = {"line": number}
        if isinstance(result, Written):
            row |= {"status": result.status, "id": result.id, "position": result.position}
        else:
            row |= {"status": "refused", "field": result.field, "error": result.message}
        self._file.write(self._encode(row) + b"\n")

    def close(self) -> None:
        self._file.close()
