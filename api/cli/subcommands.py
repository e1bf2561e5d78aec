"""Adding commands to the parser in one way: help, examples, and the function to run."""

import argparse
from collections.abc import Callable
from typing import TypeAlias

from engramlog.api.cli.arguments import add_target_arguments

Run: TypeAlias = Callable[[argparse.Namespace], int]
"""A command: its arguments → the exit code."""


class Subcommands:
    """The commands of one level. ``examples``: those of commands that bring none."""

    def __init__(self, parser: argparse.ArgumentParser, examples: str = "") -> None:
        self._parser = parser
        self._examples = examples
        self._made = parser.add_subparsers(metavar="COMMAND", title="commands")
        parser.set_defaults(run=self._help)

    def add(
        self, name: str, summary: str, run: Run | None = None, examples: str | None = None
    ) -> argparse.ArgumentParser:
        """A command's parser. Without ``run`` it is a group: give it ``Subcommands``."""
        parser = self._made.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=self._examples if examples is None else examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if run is not None:
            parser.set_defaults(run=run)
        return parser

    def reaching(
        self, name: str, summary: str, run: Run, examples: str | None = None, *, json: bool = True
    ) -> argparse.ArgumentParser:
        """The parser of a command that reaches a node; it has the options for that."""
        parser = self.add(name, summary, run, examples)
        add_target_arguments(parser, json=json)
        return parser

    def group(self, name: str, summary: str, examples: str) -> "Subcommands":
        return Subcommands(self.add(name, summary, examples=examples), examples)

    def _help(self, _: argparse.Namespace) -> int:
        self._parser.print_help()
        return 2
