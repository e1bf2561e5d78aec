"""Foreign JSONL as import lines: a document of templates, compiled once.

A mapping is JSON: ``{"first": [line…], "rules": [{"when": {field: value}, "line": {…}}]}``.
The first rule whose ``when`` equals the record's fields makes the line. In a template, ``{name}``
becomes the record's field. A string with nothing else keeps the field's type, so ``null`` stays
``null`` (and a null in a longer text makes the whole text null). Filters change a value:
``{vf|date}``.

| filter | turns | into |
|---|---|---|
| ``date`` | ``2013-01-03`` | ``2013-01-03T00:00:00Z`` |
| ``unix`` | seconds since 1970 | an RFC 3339 instant |
| ``days_since 2014-01-01`` | a number of days | that day's first instant |
| ``time %d %B %Y`` | a text in strptime's format, UTC | an RFC 3339 instant |
| ``before :`` | ``Ann: hello`` | ``Ann`` |
| ``plus 1`` | 4 | 5 |
| ``text`` | 4 | ``"4"`` |
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.line_kinds import AnyLine, convert_line, not_json

Record: TypeAlias = dict[str, Any]
Template: TypeAlias = Callable[[Record], Any]
Filter: TypeAlias = Callable[[Any, str], Any]

_PLACE = re.compile(r"\{([A-Za-z_][\w.-]*)((?:\|[^{}|]+)*)\}")


class MappingError(Exception):
    """A mapping document is not usable; the message says where."""


class MappingRule(Struct, frozen=True, forbid_unknown_fields=True):
    """``when``: fields a record must have, with these values. ``line``: the template."""

    line: dict[str, Any]
    when: dict[str, Any] = {}


class Document(Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping as written. ``first``: lines to put before the file's own."""

    rules: list[MappingRule]
    first: list[dict[str, Any]] = []
    description: str = ""


class LineMapping(Struct, frozen=True):
    """A compiled mapping."""

    first: tuple[AnyLine, ...]
    rules: tuple[tuple[tuple[tuple[str, Any], ...], Template], ...]

    def line(self, text: bytes) -> AnyLine:
        """The import line of a foreign JSON line. Raises LineError."""
        try:
            record = msgspec.json.decode(text, type=dict[str, Any])
        except ValueError as fault:
            raise not_json(text, fault) from fault
        for conditions, template in self.rules:
            if all(record.get(name) == value for name, value in conditions):
                return convert_line(template(record))
        raise LineError("no rule of the mapping covers this line")


def load_mapping(path: Path) -> LineMapping:
    """A mapping document, checked and compiled. Raises MappingError."""
    try:
        document = msgspec.json.decode(path.read_bytes().removeprefix(BOM_UTF8), type=Document)
    except OSError as fault:
        raise MappingError(f"cannot read {path}: {fault.strerror or fault}") from fault
    except ValueError as fault:
        raise MappingError(f"{path}: {fault}") from fault
    if not document.rules:
        raise MappingError(f"{path}: rules must not be empty")
    try:
        first = tuple(convert_line(line) for line in document.first)
    except LineError as fault:
        raise MappingError(f"{path}: first: {fault}") from fault
    rules = tuple((tuple(rule.when.items()), _compile(rule.line, path)) for rule in document.rules)
    return LineMapping(first, rules)


def _compile(template: object, path: Path) -> Template:
    if isinstance(template, str):
        return _compile_text(template, path)
    if isinstance(template, dict):
        items: list[tuple[str, Template]] = [
            (str(name), _compile(item, path))  # pyright: ignore[reportUnknownArgumentType]
            for name, item in template.items()  # pyright: ignore[reportUnknownVariableType]
        ]
        return lambda record: {name: made(record) for name, made in items}
    if isinstance(template, list):
        parts = [_compile(item, path) for item in template]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return lambda record: [made(record) for made in parts]
    return lambda _: template


def _compile_text(template: str, path: Path) -> Template:
    places = list(_PLACE.finditer(template))
    if not places:
        return lambda _: template
    readers = [_reader(place, path) for place in places]
    if len(places) == 1 and places[0].span() == (0, len(template)):
        return readers[0]
    texts: list[str] = []
    at = 0
    for place in places:
        texts.append(template[at : place.start()])
        at = place.end()
    tail = template[at:]

    def filled(record: Record) -> str | None:
        made: list[str] = []
        for text, read in zip(texts, readers, strict=True):
            value = read(record)
            if value is None:
                return None
            made += (text, str(value))
        made.append(tail)
        return "".join(made)

    return filled


def _reader(place: re.Match[str], path: Path) -> Template:
    name = place[1]
    steps: list[tuple[Filter, str]] = []
    for step in place[2].split("|")[1:]:
        word, _, argument = step.partition(" ")
        if word not in FILTERS:
            known = ", ".join(FILTERS)
            raise MappingError(f"{path}: unknown filter {word!r} in {place[0]}; known: {known}")
        steps.append((FILTERS[word], argument))

    def read(record: Record) -> Any:
        if name not in record:
            raise LineError("is missing, and the mapping needs it", name)
        value = record[name]
        try:
            for step, argument in steps:
                if value is None:
                    return None
                value = step(value, argument)
        except (ValueError, TypeError, OverflowError) as fault:
            raise LineError(f"{record[name]!r}: {fault}", name) from fault
        return value

    return read


def _text_of(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


FILTERS: Mapping[str, Filter] = {
    "date": lambda value, _: f"{date.fromisoformat(value)}T00:00:00Z",
    "unix": lambda value, _: _text_of(datetime.fromtimestamp(value, UTC)),
    "days_since": lambda value, start: (
        f"{date.fromisoformat(start) + timedelta(days=value)}T00:00:00Z"
    ),
    "time": lambda value, form: _text_of(datetime.strptime(value, form).replace(tzinfo=UTC)),
    "before": lambda value, separator: str(value).partition(separator)[0],
    "plus": lambda value, amount: value + int(amount),
    "text": lambda value, _: str(value),
}
"""Filter name → its function of a value and an argument."""
