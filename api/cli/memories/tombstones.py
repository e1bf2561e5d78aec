"""``engramlog tombstone``: hiding an entity from every answer, and showing it again."""

import argparse
from typing import Any

from engramlog.api.cli.arguments import add_target_arguments, warn
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, fields_of, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import Client, ClientError
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

REVOKE = Request(
    "POST /v1/tombstones/{tombstone_id}/revoke", says("{tombstone_id} hides nothing any more")
)
LIST = Request(
    "GET /v1/tombstones",
    table(
        {
            "id": "id",
            "entity": "entity_uri",
            "scope": "scope",
            "since": "created_at",
            "stands": lambda each: "yes" if each["stands"] else "no",
        },
        "tombstones",
        empty="no tombstones",
    ),
    fields=lambda _: {"limit": 500},
)


def register(commands: Subcommands) -> None:
    group = commands.group("tombstone", "hide an entity from every answer", EXAMPLES)
    parser = group.add("set", "hide an entity", run_set)
    parser.add_argument("entity_uri", metavar="ENTITY", help="such as user:bob")
    parser.add_argument(
        "--scope", choices=TOMBSTONE_SCOPES, default="all", help="hide it only there (default: all)"
    )
    parser.add_argument("--reason", help="a note for the log")
    parser.add_argument("--legal-hold", action="store_true", help="forbid erasing it")
    parser.add_argument("--erase", action="store_true", help="also erase all its facts")
    add_target_arguments(parser, json=True)
    status = Request("GET /v1/tombstones/{entity_uri}", _show_status)
    group.reaching("status", "the tombstones of an entity", status).add_argument(
        "entity_uri", metavar="ENTITY", help="such as user:bob"
    )
    parser = group.add("revoke", "show an entity again", REVOKE)
    parser.add_argument("tombstone_id", metavar="ID", help="the tombstone's id, as listed")
    parser.add_argument("--reason", required=True, help="a note for the log")
    add_target_arguments(parser, json=True)
    group.reaching("list", "tombstones, newest first", LIST)


def run_set(args: argparse.Namespace) -> int:
    """Hide an entity; with a warning if it may be a mistyped name, as a tombstone may come first.
    The answer has none: it is the record that is signed."""
    with reach(args, embedding="pinned") as client:
        known = _is_known(client, args.entity_uri)
        made = client.post("/v1/tombstones", {**fields_of(args), "wait": args.erase})
    if not known:
        warn(f"no live fact is about {made['entity_uri']}")
    if args.json:
        return print_json(made)
    print(f"{made['id']} hides {made['entity_uri']} ({made['scope']})")
    erasure = made.get("erasure")
    if erasure is not None:
        print(f"erased {erasure['facts']} facts: {erasure['erasure_id']}, {erasure['status']}")
    return 0


def _is_known(client: Client, entity: str) -> bool:
    try:
        found = client.get("/v1/entities/resolve", {"uri": entity, "top_k": 0})
    except ClientError:  # no key to read with, or no name: setting it says so
        return True
    return bool(found["layer1_match"] or found["layer2_match"])


def _show_status(_: argparse.Namespace, found: dict[str, Any]) -> None:
    """Whether an entity is hidden, and since when."""
    ended = {each["tombstone_id"]: each for each in found["revocations"]}
    print("hidden by:" if found["tombstoned"] else "not hidden")
    for tombstone in found["tombstones"]:
        revocation = ended.get(tombstone["id"])
        end = "" if revocation is None else f", revoked {revocation['created_at']}"
        print(f"  {tombstone['id']} ({tombstone['scope']}) since {tombstone['created_at']}{end}")
