"""``engramlog key``: API keys."""

import argparse
import secrets
import sys

from engramlog.api.cli.arguments import CommandError
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, everybodys, fields_of, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import day, print_json
from engramlog.projections.normalization import SCOPES

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
  engramlog key create --data memory --entity-uri agent:ops --permission admin --scope team
  pass show memory-key | engramlog key create --data memory --entity-uri agent:ann --raw-key -
"""

LIST = Request(
    "GET /v1/auth/keys",
    table(
        {
            "id": "id",
            "entity": "entity_uri",
            "permissions": lambda key: ",".join(key["permissions"]),
            "scopes": lambda key: ",".join(key.get("scopes", ())),
            "sources": lambda key: ",".join(key.get("sources", ())),
            "expires": lambda key: day(key["expires_at"]),
            "description": lambda key: key.get("description"),
        },
        empty="no keys",
    ),
    listed=True,
    fields=everybodys,
)
REVOKE = Request("DELETE /v1/auth/keys/{id}", says("key {id} is revoked"))


def register(commands: Subcommands) -> None:
    group = commands.group("key", "create, list and revoke API keys", EXAMPLES)
    parser = group.reaching("create", "create a key", run_create, CREATE_EXAMPLES)
    parser.add_argument("--entity-uri", required=True, metavar="URI", help="who will use the key")
    parser.add_argument(
        "--permission",
        dest="permissions",
        action="append",
        metavar="NAME",
        help="read, write, instruction:write, federate, admin, audit.read or replicate; repeatable "
        "(default: read and write)",
    )
    parser.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        choices=SCOPES,
        help="a scope the key covers; repeatable (default: all)",
    )
    parser.add_argument(
        "--source",
        dest="sources",
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
    parser.add_argument(
        "--expires", dest="expires_at", metavar="INSTANT", help="default and latest: in 90 days"
    )
    parser.add_argument("--description", help="a note for the list")
    parser.add_argument(
        "--raw-key", choices=("-",), help=f"read the key ({KEY_LENGTH_MIN}+ characters) from stdin"
    )

    group.reaching("list", "list keys (never the keys themselves)", LIST)
    parser = group.reaching("revoke", "revoke a key", REVOKE, json=False)
    parser.add_argument("id", metavar="ID", help="the key's id, as listed")


def run_create(args: argparse.Namespace) -> int:
    """Create a key, and print it unless the user supplied it."""
    raw_key = _read_key() if args.raw_key else secrets.token_urlsafe(KEY_BYTES)
    body = {"permissions": ["read", "write"], **fields_of(args), "raw_key": raw_key}
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
