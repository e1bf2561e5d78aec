"""``engramlog erase`` and ``engramlog hold``: erasing facts for good, and preventing it."""

import argparse
import time
from typing import Any

from engramlog.api.cli.arguments import CommandError, add_target_arguments, url_of, warn
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import Client

POLL_SECONDS = 0.2
REASONS = ("request", "law", "policy", "mistake", "unspecified")
ERASE_EXAMPLES = """\
Erased facts disappear from every answer at once, also about the past, and from every file of the
node once the status says clean. It cannot be undone.

examples:
  engramlog erase fact 0190a1b2-… --data memory --reason request --wait
  engramlog erase entity user:bob --url http://127.0.0.1:8765
  engramlog erase status --data memory
  engramlog erase status 0190a1b2-… --data memory --json         (with the signed receipt)
"""
HOLD_EXAMPLES = """\
examples:
  engramlog hold add --entity user:bob --reason "lawsuit 12/2026" --data memory
  engramlog hold remove --entity user:bob --data memory
  engramlog hold list --data memory
"""

ERASURES = table(
    {
        "erasure": "erasure_id",
        "requested": "requested_at",
        "reason": "reason",
        "facts": "facts",
        "events": "events",
        "status": lambda each: f"waiting: {each['error']}" if each["error"] else each["status"],
    },
    "erasures",
    empty="no erasures",
)
NEWEST = Request("GET /v1/erasures", ERASURES, embedding="pinned")
ONE = Request(
    "GET /v1/erasures/{erasure_id}",
    lambda args, found: ERASURES(args, {"erasures": [found]}),
    embedding="pinned",
)
HOLDS = table(
    {
        "held": "target_kind",
        "target": "target",
        "by": "actor",
        "since": "set_at",
        "reason": "reason",
    },
    "holds",
    empty="no legal holds",
)


def register(commands: Subcommands) -> None:
    group = commands.group("erase", "erase facts for good", ERASE_EXAMPLES)
    parser = group.add("fact", "erase facts by id", run_erase)
    parser.add_argument("fact_ids", metavar="ID", nargs="+", help="the ids of the facts")
    _add_erasing(parser)
    parser = group.add("entity", "erase every fact about an entity", run_erase)
    parser.add_argument("entity_uri", metavar="ENTITY", help="such as user:bob")
    parser.add_argument(
        "--keep-mentions",
        action="store_true",
        help="keep facts about others whose value names the entity",
    )
    _add_erasing(parser)
    parser = group.reaching("status", "where erasures stand", run_status)
    parser.add_argument(
        "erasure_id", metavar="ID", nargs="?", help="one erasure (default: the newest)"
    )
    group = commands.group("hold", "forbid erasing a fact or entity", HOLD_EXAMPLES)
    for name, text, held in (
        ("add", "forbid erasing", True),
        ("remove", "allow erasing again", False),
    ):
        parser = group.add(name, text, run_holds)
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--fact", metavar="ID", help="the fact to hold")
        target.add_argument("--entity", metavar="URI", help="the entity to hold")
        parser.add_argument("--reason", default="", metavar="TEXT", help="a note for the log")
        add_target_arguments(parser, json=True)
        parser.set_defaults(held=held)
    group.reaching("list", "every legal hold", run_holds)


def _add_erasing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reason", choices=REASONS, default="unspecified", help="kept in the log and the receipt"
    )
    parser.add_argument(
        "--derived", action="store_true", help="also facts derived from erased ones"
    )
    parser.add_argument("--episodes", action="store_true", help="also the episodes of erased facts")
    parser.add_argument("--wait", action="store_true", help="wait until every file is clean")
    add_target_arguments(parser, json=True)


def run_erase(args: argparse.Namespace) -> int:
    """Erase facts by id, or every fact about an entity."""
    body = {"reason": args.reason, "derived": args.derived, "episodes": args.episodes}
    if "fact_ids" in args:
        body |= {"fact_ids": args.fact_ids}
    else:
        body |= {"entity": args.entity_uri, "mentions": not args.keep_mentions}
    with reach(args, embedding="pinned") as client:
        erasure = client.post("/v1/erasures", body)
        if args.wait or url_of(args) is None:
            # This process may be the only one that serves the directory: it cleans before it ends.
            erasure |= _cleaned(client, erasure["erasure_id"])
    if args.json:
        return print_json(erasure)
    print(f"erased {erasure['facts']} facts ({erasure['events']} events): {erasure['erasure_id']}")
    if erasure["derived_fact_ids"]:
        print(f"{len(erasure['derived_fact_ids'])} facts derived from them stay:")
        print("\n".join(f"  {fact}" for fact in erasure["derived_fact_ids"]))
    if erasure["episode_ids"]:
        print(f"{len(erasure['episode_ids'])} episodes behind them stay:")
        print("\n".join(f"  {episode}" for episode in erasure["episode_ids"]))
    print(_state_line(erasure))
    return 0


def _cleaned(client: Client, erasure_id: str) -> dict[str, Any]:
    """The erasure once it is clean. Raises CommandError if cleaning fails."""
    while True:
        erasure = client.get(f"/v1/erasures/{erasure_id}")
        if erasure["status"] == "clean":
            return erasure
        if erasure["error"] is not None:
            raise CommandError(
                f"erased, but the files are not clean yet: {erasure['error']} (it will retry)"
            )
        time.sleep(POLL_SECONDS)


def _state_line(erasure: dict[str, Any]) -> str:
    if erasure["status"] == "clean":
        return "every file is clean; the receipt is signed"
    step = "" if erasure["step"] is None else f" ({erasure['step']})"
    return f"gone from every answer; cleaning the files{step}"


def run_status(args: argparse.Namespace) -> int:
    """Print the state of one erasure, or of the newest."""
    return (NEWEST if args.erasure_id is None else ONE)(args)


def run_holds(args: argparse.Namespace) -> int:
    """Set or release a hold, if the command does, and list all."""
    with reach(args) as client:
        if "held" in args:
            target = {"fact_id": args.fact} if args.fact is not None else {"entity": args.entity}
            body = {**target, "held": args.held, "reason": args.reason}
            warn(*client.request("PUT", "/v1/legal-holds", body=body).get("warnings", ()))
        pages = client.pages("/v1/legal-holds", {"limit": 500})
        answer = {"holds": [each for page in pages for each in page["holds"]]}
    if args.json:
        return print_json(answer)
    HOLDS(args, answer)
    return 0
