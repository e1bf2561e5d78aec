"""``engramlog key``: API keys."""

import argparse
import secrets
import sys

from engramlog.api.console.arguments import CommandError, add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import day, print_json, print_table

KEY_LENGTH_MIN = 32
KEY_BYTES = 32
EXAMPLES = """\
examples:
  engramlog key create --data memory --entity-uri agent:ann --permission read --permission write
  engramlog key list --data memory
  engramlog key revoke 0b7c3a5e-… --data memory
"""
CREATE_EXAMPLES = """\
The key is printed once, to stdout; the node keeps only its hash.

examples:
  engramlog key create --data memory --entity-uri agent:ann --permission read
  engramlog key create --data memory --entity-uri agent:ops --permission admin --expires \\
      2027-01-01T00:00:00Z --scope local --scope team
  pass show memory-key | engramlog key create --data memory --entity-uri agent:ann --raw-key -
"""


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("key", "create, list and revoke API keys", EXAMPLES)
    parser = group.add("create", "create a key", CREATE_EXAMPLES, run_create)
    add_target_arguments(parser, json=True)
    parser.add_argument("--entity-uri", required=True, metavar="URI", help="who will use the key")
    parser.add_argument(
        "--permission",
        action="append",
        metavar="NAME",
        help="read, write, instruction:write, federate, admin, audit.read or replicate; repeatable "
        "(default: read and write)",
    )
    parser.add_argument(
        "--scope",
        action="append",
        choices=("local", "team", "company", "public"),
        help="a scope the key covers; repeatable (default: all)",
    )
    parser.add_argument(
        "--source",
        action="append",
        metavar="SOURCE",
        help="a further source for its writes, apart from its own entity; may end in '*'; "
        "repeatable (default: none, or all for admin)",
    )
    parser.add_argument(
        "--max-classification",
        type=int,
        choices=(0, 1, 2),
        default=2,
        help="highest classification that the key sees (default: 2)",
    )
    parser.add_argument("--expires", metavar="INSTANT", help="default: in 90 days")
    parser.add_argument("--description", help="a note for the list")
    parser.add_argument(
        "--raw-key", choices=("-",), help=f"read the key ({KEY_LENGTH_MIN}+ characters) from stdin"
    )

    parser = group.add("list", "list keys (never the keys themselves)", EXAMPLES, run_list)
    add_target_arguments(parser, json=True)

    parser = group.add("revoke", "revoke a key", EXAMPLES, run_revoke)
    parser.add_argument("id", metavar="ID", help="the key's id, as listed")
    add_target_arguments(parser)


def run_create(args: argparse.Namespace) -> int:
    """Create a key, and print it unless the user supplied it."""
    raw_key = _read_key() if args.raw_key else secrets.token_urlsafe(KEY_BYTES)
    body = {
        "raw_key": raw_key,
        "entity_uri": args.entity_uri,
        "permissions": args.permission or ["read", "write"],
        "scopes": args.scope,
        "sources": args.source,
        "max_classification": args.max_classification,
        "description": args.description,
        "expires_at": args.expires,
    }
    with reach(args, create=True) as client:
        answer = client.post("/v1/auth/keys", body)
    if args.json:
        return print_json(answer if args.raw_key else {**answer, "raw_key": raw_key})
    if not args.raw_key:
        print(raw_key)
    print(
        f"key {answer['id']} for {answer['entity_uri']} "
        f"({', '.join(answer['permissions'])}), until {day(answer['expires_at'])}",
        file=sys.stderr,
    )
    return 0


def _read_key() -> str:
    raw_key = sys.stdin.readline().strip()
    if len(raw_key) < KEY_LENGTH_MIN:
        raise CommandError(f"the key on stdin must have at least {KEY_LENGTH_MIN} characters")
    return raw_key


def run_list(args: argparse.Namespace) -> int:
    """List every key if the caller may see them, else the caller's."""
    with reach(args) as client:
        keys = client.get("/v1/auth/keys", {"all": True if args.url is None else None})
    if args.json:
        return print_json(keys)
    rows = [
        [
            key["id"],
            key["entity_uri"],
            ",".join(key["permissions"]),
            ",".join(key.get("scopes", ())),
            ",".join(key.get("sources", ())),
            day(key["expires_at"]),
            key.get("description") or "",
        ]
        for key in keys
    ]
    print_table(
        ("id", "entity", "permissions", "scopes", "sources", "expires", "description"), rows
    )
    return 0


def run_revoke(args: argparse.Namespace) -> int:
    """Revoke one key."""
    with reach(args) as client:
        client.delete(f"/v1/auth/keys/{args.id}")
    print(f"key {args.id} is revoked")
    return 0
