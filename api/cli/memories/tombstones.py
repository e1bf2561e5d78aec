"""``engramlog tombstone``: hiding an entity from every answer, and showing it again."""

import argparse
from typing import Any

from engramlog.api.cli.arguments import add_target_arguments
from engramlog.api.cli.requests import Request, fields_of, says, table
from engramlog.api.cli.subcommands import Subcommands
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
    hide = Request(
        "POST /v1/tombstones",
        _show_made,
        embedding="pinned",
        fields=lambda args: {**fields_of(args), "wait": args.erase},
    )
    parser = group.add("set", "hide an entity", hide)
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


def _show_made(_: argparse.Namespace, found: dict[str, Any]) -> None:
    print(f"{found['id']} hides {found['entity_uri']} ({found['scope']})")
    erasure = found.get("erasure")
    if erasure is not None:
        print(f"erased {erasure['facts']} facts: {erasure['erasure_id']}, {erasure['status']}")


def _show_status(_: argparse.Namespace, found: dict[str, Any]) -> None:
    """Whether an entity is hidden, and since when."""
    ended = {each["tombstone_id"]: each for each in found["revocations"]}
    print("hidden by:" if found["tombstoned"] else "not hidden")
    for tombstone in found["tombstones"]:
        revocation = ended.get(tombstone["id"])
        end = "" if revocation is None else f", revoked {revocation['created_at']}"
        print(f"  {tombstone['id']} ({tombstone['scope']}) since {tombstone['created_at']}{end}")
