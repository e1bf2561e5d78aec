"""``engramlog doctor``: the node's self-check."""

from __future__ import annotations

import argparse

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table

EXAMPLES = """\
The exit code is 1 where a check failed.

examples:
  engramlog doctor --data memory
  engramlog doctor --url http://127.0.0.1:8765 --json
"""


def register(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add("doctor", "check a node", EXAMPLES, run_doctor)
    add_target_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")


def run_doctor(args: argparse.Namespace) -> int:
    """Ask for the checks and print them."""
    with reach(args, embedding="pinned") as client:
        answer = client.get("/v1/doctor")
    if args.json:
        print_json(answer)
    else:
        columns = ("check", "status", "found")
        rows = [[each["name"], each["status"], each["detail"]] for each in answer["checks"]]
        print_table(columns, rows)
        print(f"{answer['status']} at position {answer['position']}")
    return 0 if answer["status"] == "ok" else 1
