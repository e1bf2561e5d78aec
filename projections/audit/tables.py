"""Tables as files: CSV and Parquet."""

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from engramlog.projections.archive.duck import cursor, file_errors, literal


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """RFC 4180 with a header line; lists and objects as JSON text, null as nothing. A cell
    that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue().encode()


def as_parquet(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """A Parquet file; column types come from the values. Raises StorageFull or StorageFailed
    if a file on the way cannot be written."""
    names = _unique(columns)
    with file_errors("a Parquet table"), tempfile.TemporaryDirectory(prefix="engramlog-") as folder:
        lines, target = Path(folder) / "rows.ndjson", Path(folder) / "rows.parquet"
        encoder = msgspec.json.Encoder()
        with lines.open("wb") as file:
            for row in rows:
                file.write(encoder.encode(dict(zip(names, row, strict=True))) + b"\n")
        with cursor() as db:
            source = (
                f"read_json({literal(str(lines))}, format='newline_delimited', sample_size=-1,"
                " maximum_object_size=67108864)"
                if rows
                else "(SELECT "
                + ", ".join(f"NULL::VARCHAR AS {_quoted(n)}" for n in names)
                + " WHERE false)"
            )
            db.execute(
                f"COPY (SELECT * FROM {source}) TO {literal(str(target))}"
                " (FORMAT parquet, COMPRESSION zstd)"
            )
        return target.read_bytes()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _unique(columns: Sequence[str]) -> list[str]:
    """Names made distinct by a number where one occurs twice."""
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
