"""``engramlog content``: facts that the sanitizer flagged, and decisions on them."""

from engramlog.api.cli.requests import Request, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import value_text

EXAMPLES = """\
examples:
  engramlog content list --data memory
  engramlog content release 0b7c3a5e-… --data memory --reason "a quotation"
  engramlog content keep 0b7c3a5e-… --data memory
"""

LIST = Request(
    "GET /v1/content/flagged",
    table(
        {
            "id": lambda each: each["fact"]["id"],
            "status": "status",
            "found": lambda each: ", ".join(each["codes"]),
            "value": lambda each: value_text(each["fact"]["value"]),
        },
        "flagged",
        "no flagged facts",
    ),
)
REVIEW = Request("POST /v1/content/flagged/{fact_id}/review", says("{fact_id} is {status}"))


def register(commands: Subcommands) -> None:
    group = commands.group("content", "review facts that the sanitizer flagged", EXAMPLES)
    parser = group.reaching("list", "list flagged facts, newest first", LIST)
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
        parser = group.reaching(decision, summary, REVIEW, json=False)
        parser.add_argument("fact_id", metavar="FACT_ID", help="the fact")
        parser.add_argument("--reason", default="", help="a note for the log")
        parser.set_defaults(decision=decision)
