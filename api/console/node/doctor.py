"""``engramlog doctor`` and ``engramlog tasks``: a node's self-check, and its background tasks."""

import argparse

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table

DOCTOR_EXAMPLES = """\
The exit code is 1 where a check failed.

examples:
  engramlog doctor --data memory
  engramlog doctor --url http://127.0.0.1:8765 --json
"""
TASKS_EXAMPLES = """\
The exit code is 1 if a task fails. The node retries: see the error.

examples:
  engramlog tasks --data memory
  engramlog tasks --url http://127.0.0.1:8765 --json
"""


def register(commands: Subcommands) -> None:
    """Add the commands."""
    for name, summary, examples, run in (
        ("doctor", "check a node", DOCTOR_EXAMPLES, run_doctor),
        ("tasks", "list background tasks", TASKS_EXAMPLES, run_tasks),
    ):
        parser = commands.add(name, summary, examples, run)
        add_target_arguments(parser, json=True)


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
