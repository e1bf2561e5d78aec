"""``engramlog tombstone``: hiding an entity from every answer, and showing it again."""

import argparse
from typing import Any
from urllib.parse import quote

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table
from engramlog.projections.tables.facts.tombstones import TOMBSTONE_SCOPES

EXAMPLES = """\
A tombstone hides an entity from every answer, of the past as well, until it is revoked. Nothing
is taken out of any file unless --erase says so, and that cannot be undone.

examples:
  engramlog tombstone set user:bob --reason "asked by letter" --data memory
  engramlog tombstone status user:bob --url http://127.0.0.1:8765
  engramlog tombstone revoke tomb_5f0c… --reason "withdrawn" --data memory
  engramlog tombstone list --data memory --json
"""


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("tombstone", "hide an entity from every answer", EXAMPLES)
    parser = group.add("set", "hide an entity", EXAMPLES, run_set)
    parser.add_argument("entity_uri")
    parser.add_argument("--scope", choices=TOMBSTONE_SCOPES, default="all")
    parser.add_argument("--reason")
    parser.add_argument("--legal-hold", action="store_true", help="forbid erasing it")
    parser.add_argument("--erase", action="store_true", help="also erase all its facts")
    add_target_arguments(parser, json=True)
    parser = group.add("status", "the tombstones of an entity", EXAMPLES, run_status)
    parser.add_argument("entity_uri")
    add_target_arguments(parser, json=True)
    parser = group.add("revoke", "show an entity again", EXAMPLES, run_revoke)
    parser.add_argument("tombstone_id")
    parser.add_argument("--reason", required=True)
    add_target_arguments(parser, json=True)
    add_target_arguments(
        group.add("list", "tombstones, newest first", EXAMPLES, run_list), json=True
    )


def run_set(args: argparse.Namespace) -> int:
    """Hide an entity."""
    body: dict[str, Any] = {
        "entity_uri": args.entity_uri,
        "scope": args.scope,
        "reason": args.reason,
        "legal_hold": args.legal_hold,
        "erase": args.erase,
        "wait": args.erase,
    }
    with reach(args, embedding="pinned") as client:
        found = client.post("/v1/tombstones", body)
    if args.json:
        return print_json(found)
    print(f"{found['id']} hides {found['entity_uri']} ({found['scope']})")
    erasure = found.get("erasure")
    if erasure is not None:
        print(f"erased {erasure['facts']} facts: {erasure['erasure_id']}, {erasure['status']}")
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Print whether an entity is hidden, and since when."""
    with reach(args) as client:
        found = client.get(f"/v1/tombstones/{quote(args.entity_uri, safe='')}")
    if args.json:
        return print_json(found)
    ended = {each["tombstone_id"]: each for each in found["revocations"]}
    print("hidden by:" if found["tombstoned"] else "not hidden")
    for tombstone in found["tombstones"]:
        revocation = ended.get(tombstone["id"])
        end = "" if revocation is None else f", revoked {revocation['created_at']}"
        print(f"  {tombstone['id']} ({tombstone['scope']}) since {tombstone['created_at']}{end}")
    return 0


def run_revoke(args: argparse.Namespace) -> int:
    """Show an entity again."""
    path = f"/v1/tombstones/{quote(args.tombstone_id, safe='')}/revoke"
    with reach(args) as client:
        found = client.post(path, {"reason": args.reason})
    if args.json:
        return print_json(found)
    print(f"{found['tombstone_id']} hides nothing any more")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """List the newest tombstones."""
    with reach(args) as client:
        found = client.get("/v1/tombstones", {"limit": 500})
    if args.json:
        return print_json(found)
    print_table(
        ["id", "entity", "scope", "since", "stands"],
        [
            [each["id"], each["entity_uri"], each["scope"], each["created_at"],
             "yes" if each["stands"] else "no"]
            for each in found["tombstones"]
        ],
    )  # fmt: skip
    return 0
