"""Answers as text for people: aligned columns, with short values and instants."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from engramlog.projections.text.sanitizing import clean

GAP = "  "
WIDTH_MIN = 60
COLUMN_MIN = 12
CELL_MAX = 200
IDS = frozenset({"erasure", "id", "peer", "receipt"})
"""Headings of what other commands take."""

Column: TypeAlias = str | Callable[[Any], object]
"""A field of a row's object, or what to make of the object; None is an empty cell."""


def print_json(body: object) -> int:
    """Print an answer as indented JSON; the exit code of a command that ends with it."""
    text = msgspec.json.format(msgspec.json.encode(body), indent=2)
    print(text.decode())
    return 0


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = "") -> None:
    """Print aligned columns, or ``empty`` if there are no rows. Leaves out what a terminal obeys.
    Cuts cells at 200 characters, so that one long value does not pad every line. On a terminal,
    cuts the widest columns until the lines fit, but no ids."""
    if not rows and empty:
        print(empty)
        return
    shown = [[fitted(" ".join(clean(cell).split()), CELL_MAX) for cell in row] for row in rows]
    cells = [list(headings), *shown]
    widths = [max(len(row[n]) for row in cells) for n in range(len(headings))]
    cut = [n for n, heading in enumerate(headings) if heading not in IDS]
    limit = _terminal_width()
    while cut and limit and sum(widths) + len(GAP) * (len(widths) - 1) > limit:
        widest = max(cut, key=lambda n: widths[n])
        if widths[widest] <= COLUMN_MIN:
            break
        widths[widest] -= 1
    for row in cells:
        padded = [fitted(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True)]
        print(GAP.join(padded).rstrip())


def print_rows(
    columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]], *, empty: str
) -> None:
    """Print objects as a table, by the columns' headings."""
    made = [
        [row[column] if isinstance(column, str) else column(row) for column in columns.values()]
        for row in rows
    ]
    cells = [["" if value is None else str(value) for value in row] for row in made]
    print_table(list(columns), cells, empty=empty)


def fitted(text: str, size: int) -> str:
    """The text, cut to ``size`` characters if it is longer."""
    return text if len(text) <= size else text[: size - 1] + "…"


def value_text(value: dict[str, Any]) -> str:
    """A typed value in a person's notation."""
    v = value.get("v")
    if v is None:
        return "(null)"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, float) and v.is_integer():
        return str(int(v))
    text = clean(str(v))  # a terminal obeys control characters
    return short_name(text) if value.get("type") == "ref" else text


def short_name(uri: str) -> str:
    """``stigmem://authority/type/id`` → ``type/id``; other names unchanged."""
    parts = uri.removeprefix("stigmem://").split("/", 1)
    return parts[1] if uri.startswith("stigmem://") and len(parts) == 2 else uri


def fact_text(fact: Mapping[str, Any]) -> str:
    return clean(f"{short_name(fact['entity'])} {fact['relation']} {value_text(fact['value'])}")


def day(instant: str | None) -> str:
    """The date of an instant, ``-`` if it is None."""
    return "-" if instant is None else instant[:10]


def since(fact: Mapping[str, Any]) -> str:
    """The date from which a fact holds, and until when: as stated, else when it was recorded."""
    until = fact.get("valid_until")
    begins = day(fact.get("valid_from") or fact["timestamp"])
    return begins if until is None else f"{begins}..{day(until)}"


def _terminal_width() -> int | None:
    if not sys.stdout.isatty():
        return None
    return max(WIDTH_MIN, shutil.get_terminal_size().columns)
