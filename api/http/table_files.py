"""Answers as files: the rows of the JSON answer, flat, in CSV or Parquet."""

from collections.abc import Sequence
from typing import Any, cast

from aiohttp import web

from engramlog.projections.audit.tables import as_csv, as_parquet

_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def records_as(form: str, name: str, first: str, records: Sequence[dict[str, Any]]) -> web.Response:
    """Records as a file; nested objects become columns with dotted names. ``first``: their first
    column, which the file also has without records."""
    flat = [_flat(record) for record in records]
    columns = list(dict.fromkeys([first, *(column for record in flat for column in record)]))
    rows = [[record.get(column) for column in columns] for record in flat]
    return table_as(form, name, columns, rows)


def table_as(
    form: str, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> web.Response:
    """A table as a download."""
    body = as_csv(columns, rows) if form == "csv" else as_parquet(columns, rows)
    return web.Response(
        body=body,
        content_type=_TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="{name}.{form}"'},
    )


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= _flat(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
