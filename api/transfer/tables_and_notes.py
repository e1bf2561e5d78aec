"""Lines of an import from common files: tables (CSV) and notes (Markdown).

Each line of the file gives one, empty where no fact begins: messages and ``--skip`` count the
file's own lines.
"""

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import TypeAlias

import msgspec

from engramlog.api.schemas.values import typed_value
from engramlog.api.transfer.import_files import LINE_BYTES_MAX
from engramlog.api.transfer.importing import ImportStopped

NEEDED = ("entity", "relation", "value")
KEPT = ("scope", "valid_from", "valid_until")
NOTE_RELATION = "memory:note"
_NOT_NAMES = re.compile(r"[\W_]+")
_MARK = re.compile(r"^\s*(?:[-*+]|[0-9]+[.)])\s+(?:\[[ xX]\]\s+)?")
_LINE_END = re.compile(r"\r\n|\r|\n")
_NOTHING = b"\n"
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_UNDERLINE = re.compile(r"^ {0,3}(?:(=)=+|--+)\s*$")
_RULE = re.compile(r"^ {0,3}([-*_])(?:\s*\1){2,}\s*$")
_PROPERTY = re.compile(r"^[^\s:#-][^:]*:(?:\s|$)")
_FENCE = re.compile(r"^\s*(?:(?:[-*+]|[0-9]+[.)])\s+)?(`{3,}(?=[^`]*$)|~{3,})")


def lines_of_csv(name: str, rows: Iterable[bytes]) -> Iterator[bytes]:
    """A fact for each row, by the column names in the first row: ``entity``, ``relation``,
    ``value`` and perhaps ``source``, ``scope``, ``confidence``, ``valid_from``, ``valid_until``. A
    value becomes a JSON number, true or false if it reads as one; a date alone is its first moment.
    Raises ImportStopped: a required column is missing, one is unknown, a row has more cells than
    columns or ends before a required one, a quote does not end with its cell, or the file is not
    UTF-8."""
    text = io.StringIO(_text(name, rows), newline="")
    csv.field_size_limit(LINE_BYTES_MAX)
    table = csv.DictReader(text, strict=True)
    columns = [each.strip() for each in table.fieldnames or ()]
    known = {*NEEDED, *KEPT, "source", "confidence"}
    missing = [each for each in NEEDED if each not in columns]
    unknown = [each for each in columns if each not in known]
    if missing or unknown:
        what = f"has no column {missing[0]}" if missing else f"has an unknown column {unknown[0]!r}"
        raise ImportStopped(
            f"{name} {what}; columns are {', '.join(sorted(known))}{_separated(columns)}"
        )
    told = 0
    for begins, row in _full_rows(name, table):
        yield from (begins - 1 - told) * [_NOTHING]
        told = begins
        given = {key.strip(): (each or "").strip() for key, each in row.items()}
        line: dict[str, object] = {
            "entity": given["entity"],
            "relation": given["relation"],
            "value": typed_value(_parsed(given["value"])),
            "source": given.get("source") or _source(name),
        }
        line |= {each: given[each] for each in KEPT if given.get(each)}
        if given.get("confidence"):
            line["confidence"] = _parsed(given["confidence"])
        yield msgspec.json.encode(line) + b"\n"


def lines_of_notes(name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """A fact for each paragraph and list item, about ``note:NAME``; the headings above precede its
    words. Blank lines, items and headings of fenced code are code; properties before the text
    (``---`` around YAML) are one note. Raises ImportStopped: the file is not UTF-8."""
    entity = f"note:{_stem(name)}"
    headings: list[str] = []
    paragraph: list[str] = []
    item = False

    def paragraph_lines() -> Iterator[bytes]:
        height, words = len(paragraph), " ".join(filter(None, paragraph))
        paragraph.clear()
        if words:
            height -= 1
            value = {"type": "text", "v": ": ".join([*headings, words])}
            line = {"entity": entity, "relation": NOTE_RELATION, "value": value,
                    "source": _source(name)}  # fmt: skip
            yield msgspec.json.encode(line) + b"\n"
        yield from height * [_NOTHING]

    texts = [line.strip("\ufeff\r") for line in _text(name, lines).split("\n")]
    code_ends, unclosed = _end_of_properties(texts), dict[str, int]()
    for number, text in enumerate(texts):
        if number <= code_ends:
            paragraph.append(text.strip())
            continue
        underline = _UNDERLINE.match(text)
        if underline and len(paragraph) == 1 and paragraph[0] and not item:
            headings[0 if underline[1] else 1 :] = [paragraph.pop()]
            yield from 2 * [_NOTHING]
            continue
        code_ends = _end_of_code(texts, number, unclosed)
        heading, mark = _HEADING.match(text), _MARK.match(text)
        blank = not text.strip() or _RULE.match(text)
        if heading or mark or blank:
            yield from paragraph_lines()
        if heading:
            headings[len(heading[1]) - 1 :] = [heading[2]]
        if heading or blank:
            yield _NOTHING
        else:
            item = bool(mark) or (item and bool(paragraph))
            paragraph.append((text[mark.end() :] if mark else text).strip())
    yield from paragraph_lines()


def _end_of_properties(texts: list[str]) -> int:
    """The last line of the properties at the beginning, whose marks become blank; -1: none."""
    if texts[0].rstrip() != "---" or len(texts) < 2 or not _PROPERTY.match(texts[1]):
        return -1
    for number in range(2, len(texts)):
        if texts[number].rstrip() in ("---", "..."):
            texts[0] = texts[number] = ""
            return number - 1
    return -1


def _end_of_code(texts: list[str], begins: int, unclosed: dict[str, int]) -> int:
    """The line that closes the fenced code beginning at this one; -1: none begins or it stays
    open, for the rest of a file is no code. ``unclosed``: by character, the length of a fence that
    no line closed; later ones of it need no look at the rest."""
    fence = _FENCE.match(texts[begins])
    if fence is None:
        return -1
    mark, length = fence[1][0], len(fence[1])
    if length >= unclosed.get(mark, length + 1):
        return -1
    closing = re.compile(rf"^\s*{mark}{{{length},}}\s*$")
    for number in range(begins + 1, len(texts)):
        if closing.match(texts[number]):
            return number
    unclosed[mark] = length
    return -1


def _text(name: str, lines: Iterable[bytes]) -> str:
    try:
        return b"".join(lines).decode()
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        raise ImportStopped(f"{name} is not UTF-8 (line {line}); nothing was imported") from fault


def _full_rows(name: str, table: "csv.DictReader[str]") -> list[tuple[int, dict[str, str | None]]]:
    """All rows with the lines where they begin, before the first is imported: a comma outside
    quotes would cut a value short."""
    rows: list[tuple[int, dict[str, str | None]]] = []
    begins = table.line_num + 1
    try:
        for row in table:
            further = row.pop(None, None)  # pyright: ignore[reportCallIssue, reportArgumentType]
            cells = (*row.values(), *(further or ()))
            begins = table.line_num - sum(len(_LINE_END.findall(each or "")) for each in cells)
            if any(map(str.strip, further or ())):
                raise ImportStopped(
                    f"{name} has more cells than columns at line {begins}; "
                    "nothing was imported (a cell with a comma needs quotes)"
                )
            absent = [key for key, each in row.items() if each is None and key.strip() in NEEDED]
            if absent:
                raise ImportStopped(
                    f"{name} has no {absent[0].strip()} at line {begins}; nothing was imported"
                )
            rows.append((begins, {**row}))
            begins = table.line_num + 1
    except csv.Error as fault:
        raise ImportStopped(
            f"{name} quotes a cell wrongly at line {begins}; nothing was imported ({fault})"
        ) from fault
    return rows


def _separated(columns: list[str]) -> str:
    """What to change in a first row that has other separators."""
    other = next((each for each in ";\t|" if len(columns) == 1 and each in columns[0]), None)
    return f" (separate them with commas, not {other!r})" if other else ""


def _parsed(text: str) -> str | bool | float:
    """The number, true or false that a cell reads as; else its text."""
    try:
        found: object = json.loads(text)
        if isinstance(found, bool | int | float) and math.isfinite(found):
            return found
    except (ValueError, OverflowError):  # a text, or a number too large for one
        pass
    return text


def _source(name: str) -> str:
    return f"file:{_stem(name)}"


def _stem(name: str) -> str:
    stem = unicodedata.normalize("NFC", PurePath(name).stem).lower()
    return _NOT_NAMES.sub("-", stem).strip("-") or "notes"


Reader: TypeAlias = Callable[[str, Iterable[bytes]], Iterator[bytes]]
READERS: dict[str, Reader] = {
    ".csv": lines_of_csv,
    ".md": lines_of_notes,
    ".markdown": lines_of_notes,
}
"""What makes lines of a file, by the end of its name."""
