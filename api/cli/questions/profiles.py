"""``engramlog profile``: show a recall profile's document, and install a changed one."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

from engramlog.api.cli.arguments import CommandError, warn
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.client.client import path_segment

EXAMPLES = """\
examples:
  engramlog profile list --data memory
  engramlog profile show abmind-head --data memory > mine.json
  RECALL_SE_WAIT_MS=400 engramlog profile show abmind-head --abmind-environment --data memory
  engramlog profile install abmind-head mine.json --data memory
"""

LIST = Request(
    "GET /v1/profiles",
    table(
        {
            "name": "name",
            "origin": "origin",
            "description": lambda each: each["document"]["description"].split(". ")[0],
        },
        "profiles",
    ),
)


def register(commands: Subcommands) -> None:
    group = commands.group("profile", "show and install recall profiles", EXAMPLES)
    group.reaching("list", "list the profiles", LIST)

    parser = group.reaching("show", "print a profile's document", run_show, json=False)
    parser.add_argument("name", metavar="NAME", help="the profile, as listed")
    parser.add_argument(
        "--abmind-environment", action="store_true",
        help="with the numbers of abmind's variables, such as RECALL_SE_WAIT_MS",
    )  # fmt: skip

    done = says("profile {name} installed")
    install = Request("PUT /v1/profiles/{name}", done, fields=_document)
    parser = group.reaching("install", "install a profile", install, json=False)
    parser.add_argument("name", metavar="NAME", help="its new name")
    parser.add_argument("file", metavar="FILE", help="its document; - is stdin")


def run_show(args: argparse.Namespace) -> int:
    with reach(args) as client:
        document = client.get(f"/v1/profiles/{path_segment(args.name, safe='')}")["document"]
    if args.abmind_environment:
        from engramlog.api.cli.questions.abmind_environment import tuned

        document, warnings = tuned(document, os.environ)
        warn(*warnings)
    print(json.dumps(document, ensure_ascii=False, indent=2))
    return 0


def _document(args: argparse.Namespace) -> dict[str, Any]:
    """The profile to install; the path has its name."""
    file: str = args.file
    try:
        document = json.loads(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except ValueError as fault:
        raise CommandError(f"{file}: {fault}") from fault
    if not isinstance(document, dict):
        raise CommandError(f"{file}: a profile must be a JSON object")
    return cast("dict[str, Any]", document)
