"""The ``abmind`` command: abmind's own commands and flags, over a node.

``recall``, ``store`` and ``hook`` are commands of ``engramlog`` under abmind's names.
"""

import argparse
import sys
from collections.abc import Sequence

from engramlog.api.cli.arguments import add_target_arguments
from engramlog.api.cli.main import execute
from engramlog.api.cli.memories.memory import add_store_command
from engramlog.api.cli.questions.hook import add_hook_command
from engramlog.api.cli.questions.keyword_recall import (
    LIMIT,
    add_keyword_arguments,
    run_keyword_recall,
)
from engramlog.api.cli.subcommands import Subcommands

PROGRAM = "abmind"
EXAMPLES = """\
examples:
  abmind store --user-id ann --memory-type fact --emotion-score 0 \\
      --translated "Ann works at Acme" --original "Ann az Acme-nél dolgozik"
  abmind recall --translated "acme,work" --user-id ann
  abmind recall --keywords "project deadline" --user-id ann --topic work --limit 5
  echo '{"prompt": "where does Ann work?"}' | abmind hook recall --user-id ann
"""


def build_abmind_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="A memory for assistants, with abmind's commands, over an engramlog node.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    commands = Subcommands(parser)
    recall = commands.add("recall", "find memories by keywords", run_recall, EXAMPLES)
    add_target_arguments(recall)
    add_keyword_arguments(recall)
    recall.add_argument("--limit", type=int, default=LIMIT, help=f"default: {LIMIT}")
    recall.add_argument("--scope", default="*", help="where to look (default: every scope)")
    recall.add_argument("--profile", metavar="NAME", help="recall profile (default: abmind)")
    recall.set_defaults(as_of=None, valid_at=None, explain=False, usage=recall.print_usage)
    add_store_command(commands)
    add_hook_command(commands.group("hook", "recall for an agent's host, at every turn", EXAMPLES))
    return parser


def run_recall(args: argparse.Namespace) -> int:
    """Ask by keywords; without keywords or a user, print usage and return 1, as abmind does."""
    missing = [
        flag
        for flag, given in (("--translated", args.translated), ("--user-id", args.user_id))
        if not given
    ]
    if missing:
        args.usage(sys.stderr)
        print(f"{PROGRAM}: give {' and '.join(missing)}", file=sys.stderr)
        return 1
    return run_keyword_recall(args)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return execute(build_abmind_parser, sys.argv[1:] if argv is None else argv, PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
