"""Commands that are one request to a node: their arguments, by name, are its fields."""

import argparse
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from engramlog.api.cli.reach import reach
from engramlog.api.cli.text_tables import Column, print_json, print_rows
from engramlog.api.client.client import path_segment

if TYPE_CHECKING:  # only commands that open a directory load it
    from engramlog.api.cli.opening import Embedding

Shows: TypeAlias = Callable[[argparse.Namespace, Any], object]
"""Prints an answer for people."""
_OF_EVERY_COMMAND = frozenset(
    {"run", "traceback", "data_dir", "config", "url", "key_env", "json", "format", "output"}
)
_ARGUMENT = re.compile(r"\{(\w+)\}")


def fields_of(args: argparse.Namespace) -> dict[str, Any]:
    """The command's own arguments, as far as they are given."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    return {name: value for name, value in given.items() if name not in _OF_EVERY_COMMAND}


class Request(Struct, frozen=True):
    """Runs a command: asks, and prints the answer, as JSON if the arguments say so.

    Attributes:
        call: method and path. ``{name}`` in the path is an argument; the others are fields of the
            query or body.
        shows: prints the answer otherwise.
        part: print only this part of the answer, in JSON too.
        listed: whether the answer is a list.
        page_max: for a list in pages: how many items a page holds. The list ends at ``--limit``.
        embedding: see ``reach``.
        create: see ``reach``.
        fields: of the query or body, if not the arguments.
        fails: whether the exit code is 1.
    """

    call: str
    shows: Shows
    part: str = ""
    listed: bool = False
    page_max: int = 0
    embedding: "Embedding" = "off"
    create: bool = False
    fields: Callable[[argparse.Namespace], dict[str, Any]] = fields_of
    fails: Callable[[Any], bool] = lambda _: False

    def __call__(self, args: argparse.Namespace) -> int:
        fields = self.fields(args)
        method, _, template = self.call.partition(" ")
        path = _ARGUMENT.sub(
            lambda found: path_segment(str(vars(args)[found[1]]), safe=":"), template
        )
        for name in _ARGUMENT.findall(template):
            fields.pop(name, None)
        with reach(args, create=self.create, embedding=self.embedding) as client:
            if self.page_max:
                most = fields.pop("limit")
                answer: Any = client.items(path, self.part, fields, most, self.page_max)[0]
            elif method == "GET":
                answer = client.get(path, fields, listed=self.listed)
            else:
                answer = client.request(method, path, body=fields or None)
        if self.part and not self.page_max:
            answer = answer[self.part]
        if getattr(args, "json", False):
            print_json(answer)
        else:
            self.shows(args, answer)
        return int(self.fails(answer))


def everybodys(args: argparse.Namespace) -> dict[str, Any]:
    """The query for things of every caller; a node asked by URL lists only those of its key."""
    return {"all": True} if args.url is None else {}


def says(text: str) -> Shows:
    """Prints ``text``, in which ``{name}`` is a field of the answer, or an argument."""

    def show(args: argparse.Namespace, answer: dict[str, Any] | None) -> None:
        print(text.format(**vars(args) | (answer or {})))

    return show


def table(columns: Mapping[str, Column], rows: str = "", empty: str = "") -> Shows:
    """Prints a table; ``rows``: the part of the answer that has them; ``empty``: without any. Says
    so if the answer is not the last page."""

    def show(_: argparse.Namespace, answer: Any) -> None:
        print_rows(columns, answer[rows] if rows else answer, empty=empty)
        if rows and any(answer.get(name) is not None for name in ("before", "cursor")):
            print("more follow")

    return show


def as_json(_: argparse.Namespace, answer: object) -> None:
    print_json(answer)
