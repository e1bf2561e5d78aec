"""``engramlog content``: facts that the sanitizer flagged, and decisions on them."""

import argparse
from urllib.parse import quote

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table, value_text

EXAMPLES = """\
examples:
  engramlog content list --data memory
  engramlog content release 0b7c3a5e-… --data memory --reason "a quotation"
  engramlog content keep 0b7c3a5e-… --data memory
"""


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("content", "review facts that the sanitizer flagged", EXAMPLES)
    parser = group.add("list", "list flagged facts, newest first", EXAMPLES, run_list)
    add_target_arguments(parser, json=True)
    parser.add_argument(
        "--status",
        choices=("pending", "released", "kept", "all"),
        default="pending",
        help="default: pending",
    )
    parser.add_argument("--limit", type=int, default=50, help="most facts to show (default: 50)")
    for decision, summary in (
        ("release", "serve a flagged fact again"),
        ("keep", "keep a flagged fact back"),
    ):
        parser = group.add(decision, summary, EXAMPLES, run_review)
        add_target_arguments(parser)
        parser.add_argument("fact_id", metavar="FACT_ID", help="the fact")
        parser.add_argument("--reason", default="", help="a note for the log")
        parser.set_defaults(decision=decision)


def run_list(args: argparse.Namespace) -> int:
    """List flagged facts."""
    with reach(args) as client:
        query = {"status": args.status, "limit": args.limit}
        answer = client.get("/v1/content/flagged", query)
    if args.json:
        return print_json(answer)
    rows = [
        [each["fact"]["id"], each["status"], ", ".join(each["codes"]),
         value_text(each["fact"]["value"])]
        for each in answer["flagged"]
    ]  # fmt: skip
    print_table(("id", "status", "found", "value"), rows) if rows else print("no flagged facts")
    return 0


def run_review(args: argparse.Namespace) -> int:
    """Decide on one."""
    with reach(args) as client:
        path = f"/v1/content/flagged/{quote(args.fact_id, safe=':')}/review"
        answer = client.post(path, {"decision": args.decision, "reason": args.reason})
    print(f"{answer['fact_id']} is {answer['status']}")
    return 0
