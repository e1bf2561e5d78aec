"""``engramlog receipts`` and ``engramlog recall replay``: questions and answers of recalls."""

import argparse
from typing import Any

from engramlog.api.cli.arguments import CommandError
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import fact_text, print_json, print_table, short_name
from engramlog.api.client.client import Client, path_segment
from engramlog.projections.text.sanitizing import clean

EXAMPLES = """\
examples:
  engramlog receipts --data memory
  engramlog receipts latest --data memory
  engramlog receipts 0b8e…  --url http://127.0.0.1:8765 --json
"""
LATEST = "latest"

LIST = Request(
    "GET /v1/recall/receipts",
    table(
        {
            "answered": "answered_at",
            "receipt": "receipt_id",
            "as of position": lambda each: each["moment"]["position"],
            "asked by": lambda each: short_name(each["principal"]),
            "facts": lambda each: len(each["returned"]),
            "question": "query",
        },
        "receipts",
        "no receipts",
    ),
)


def register(commands: Subcommands) -> None:
    parser = commands.reaching("receipts", "list recalls and their answers", run_list, EXAMPLES)
    parser.add_argument("receipt", metavar="RECEIPT", nargs="?", help="one receipt's id, or latest")
    parser.add_argument("--principal", help="only this principal's (for auditors)")
    parser.add_argument("--limit", type=int, default=20, help="most receipts (default: 20)")


def run_list(args: argparse.Namespace) -> int:
    """Print receipts, newest first, or one in full."""
    if args.receipt is None:
        return LIST(args)
    with reach(args) as client:
        return print_json(client.get(_path(client, args.receipt)))


def run_replay(args: argparse.Namespace) -> int:
    """Repeat a receipt's question at its moment and now, and print the differences."""
    with reach(args, embedding="asked") as client:
        answer = client.post(f"{_path(client, args.receipt)}/replay")
    if args.json:
        return print_json(answer)
    then, now = answer["then"], answer["now"]
    print(f"question: {clean(answer['query'])}  (profile {answer['profile']})")
    exact = "as recorded" if then["faithful"] else "; ".join(then["reasons"])
    print(f"then: position {then['moment']['position']}, {then['moment']['instant']}: {exact}")
    print(f"now:  position {now['moment']['position']}, {now['moment']['instant']}")
    rows = [_row(each) for each in answer["facts"]]
    if rows:
        print_table(("change", "then", "now", "score then", "now", "fact"), rows)
    counts = answer["counts"]
    print(", ".join(f"{counts[change]} {change}" for change in ("same", "moved", "gone", "new")))
    return 0


def _row(each: dict[str, Any]) -> list[str]:
    fact = each["fact"]
    text = each["fact_id"] if fact is None else fact_text(fact)
    numbers = (each["rank_then"], each["rank_now"])
    scores = (each["score_then"], each["score_now"])
    return [
        each["change"],
        *("-" if number is None else str(number) for number in numbers),
        *("-" if score is None else f"{score:.3f}" for score in scores),
        text,
    ]


def _path(client: Client, receipt: str) -> str:
    """The route of a receipt. Raises CommandError if no receipt exists yet."""
    if receipt == LATEST:
        found = client.get("/v1/recall/receipts", {"limit": 1})["receipts"]
        if not found:
            raise CommandError("no receipts yet: recall something first")
        receipt = found[0]["receipt_id"]
    return f"/v1/recall/receipts/{path_segment(receipt, safe='')}"
