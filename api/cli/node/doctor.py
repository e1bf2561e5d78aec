"""``engramlog doctor`` and ``engramlog tasks``: a node's self-check, and its background tasks."""

from engramlog.api.cli.requests import Request, table
from engramlog.api.cli.subcommands import Subcommands

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

CHECKS = table({"check": "name", "status": "status", "found": "detail"}, "checks")
DOCTOR = Request(
    "GET /v1/doctor",
    lambda args, answer: (
        CHECKS(args, answer),
        print(f"{answer['status']} at position {answer['position']}"),
    ),
    embedding="pinned",
    fails=lambda answer: answer["status"] != "ok",
)
TASKS = Request(
    "GET /v1/admin/tasks",
    table({"task": "name", "state": "state", "error": "error"}, "tasks"),
    embedding="pinned",
    fails=lambda answer: any(each["state"] == "failing" for each in answer["tasks"]),
)


def register(commands: Subcommands) -> None:
    commands.reaching("doctor", "check a node", DOCTOR, DOCTOR_EXAMPLES)
    commands.reaching("tasks", "list background tasks", TASKS, TASKS_EXAMPLES)
