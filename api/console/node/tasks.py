"""``engramlog tasks``: what a node does beside requests."""

from __future__ import annotations

import argparse

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table

EXAMPLES = """\
The exit code is 1 where a task fails. It is repeated: see the error.

examples:
  engramlog tasks --data memory
  engramlog tasks --url http://127.0.0.1:8765 --json
"""


def register(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add("tasks", "list background tasks", EXAMPLES, run_tasks)
    add_target_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")


def run_tasks(args: argparse.Namespace) -> int:
    """Ask for the tasks and print them."""
    with reach(args, embedding="pinned") as client:
        answer = client.get("/v1/admin/tasks")
    if args.json:
        print_json(answer)
    else:
        rows = [[each["name"], each["state"], each["error"] or ""] for each in answer["tasks"]]
        print_table(("task", "state", "error"), rows)
    return 1 if any(each["state"] == "failing" for each in answer["tasks"]) else 0
