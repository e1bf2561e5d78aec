"""``engramlog request``: any route of a node, from a shell."""

import argparse
import sys
from urllib.parse import quote

import msgspec

from engramlog.api.console.arguments import CommandError
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
EXAMPLES = """\
Docs and /docs of a running node list the routes. Quote a path with a query.

examples:
  engramlog request GET '/v1/aliases?limit=10' --data memory
  engramlog request POST /v1/aliases --body '{"raw_uri": "user:al", "canonical_uri": "user:alice"}'
  engramlog request PUT /v1/consolidation/rules/towns --body - < rule.json
  engramlog request DELETE /v1/aliases/user:al --url http://127.0.0.1:8765
"""


def register(commands: Subcommands) -> None:
    summary = "send a request to a node, for all that has no command"
    parser = commands.reaching("request", summary, run, EXAMPLES, json=False)
    parser.add_argument("method", metavar="METHOD", choices=METHODS, help=", ".join(METHODS))
    parser.add_argument("path", metavar="PATH", help="of the route, with its query")
    parser.add_argument("--body", metavar="JSON", help="- reads it from stdin")


def run(args: argparse.Namespace) -> int:
    """Send one request and print the answer: JSON indented, all else as it is."""
    path: str = args.path
    if not path.startswith("/"):
        raise CommandError(f"a path begins with /, as /v1/facts: {path!r}")
    body = None if args.body is None else _body(args.body)
    new = args.method in ("POST", "PUT")
    with reach(args, create=new, embedding="pinned") as client:
        answer = client.fetch(args.method, quote(path, safe="/:?&=%+,@~"), body=body)
    try:
        return print_json(msgspec.json.decode(answer)) if answer else 0
    except msgspec.DecodeError:
        sys.stdout.buffer.write(answer)
        return 0


def _body(given: str) -> object:
    data = sys.stdin.buffer.read() if given == "-" else given
    try:
        return msgspec.json.decode(data)
    except ValueError as fault:
        raise CommandError(f"the body is not JSON: {fault}") from fault
