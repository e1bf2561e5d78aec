"""``engramlog names``: other names of entities, and which entity a name means."""

import argparse
from urllib.parse import quote

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import day, print_json, print_table

EXAMPLES = """\
examples:
  engramlog names alias user:al stigmem://acme.example/user/alice --data memory
  engramlog names list --data memory
  engramlog names unalias user:al --data memory
  engramlog names resolve user:alise --data memory
"""


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("names", "give entities other names, and resolve names", EXAMPLES)
    parser = group.add("alias", "give an entity another name", EXAMPLES, run_alias)
    add_target_arguments(parser)
    parser.add_argument("raw_uri", metavar="NAME", help="the other name")
    parser.add_argument("canonical_uri", metavar="ENTITY", help="the entity that it means")
    parser = group.add("unalias", "remove another name", EXAMPLES, run_unalias)
    add_target_arguments(parser)
    parser.add_argument("raw_uri", metavar="NAME", help="the name")
    parser = group.add("list", "list other names", EXAMPLES, run_list)
    add_target_arguments(parser, json=True)
    parser.add_argument("--limit", type=int, default=1000, help="most to show (default: 1000)")
    parser.add_argument("--after", default="", metavar="NAME", help="start after this name")
    parser = group.add("resolve", "find the entity that a name means or might mean", EXAMPLES,
                       run_resolve)  # fmt: skip
    add_target_arguments(parser, json=True)
    parser.add_argument("uri", metavar="NAME", help="the name")
    parser.add_argument("--top-k", type=int, default=5, help="most similar names (default: 5)")


def run_alias(args: argparse.Namespace) -> int:
    """Set an alias."""
    with reach(args) as client:
        body = {"raw_uri": args.raw_uri, "canonical_uri": args.canonical_uri}
        made = client.post("/v1/aliases", body)
    print(f"{made['raw_uri']} means {made['canonical_uri']}")
    for warning in made.get("warnings", ()):
        print(f"warning: {warning}")
    return 0


def run_unalias(args: argparse.Namespace) -> int:
    """Remove an alias."""
    with reach(args) as client:
        client.delete(f"/v1/aliases/{quote(args.raw_uri, safe=':/')}")
    print(f"{args.raw_uri} means itself")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """List aliases."""
    with reach(args) as client:
        rows = client.get("/v1/aliases", {"limit": args.limit, "after": args.after or None})
    if args.json:
        return print_json(rows)
    columns = ("name", "means", "kind", "since")
    cells = [
        [row["raw_uri"], row["canonical_uri"], row["kind"], day(row["created_at"])] for row in rows
    ]
    print_table(columns, cells, empty="no aliases")
    return 0


def run_resolve(args: argparse.Namespace) -> int:
    """Resolve a name."""
    with reach(args) as client:
        found = client.get("/v1/entities/resolve", {"uri": args.uri, "top_k": args.top_k})
    if args.json:
        return print_json(found)
    how = {1: "an entity with facts", 2: "an alias", 3: "a name like others", None: "unknown"}
    print(f"{found['best']} ({args.uri} is {how[found['resolution_layer']]})")
    for like in found["layer3_candidates"]:
        print(f"  {like['score']:.2f}  {like['uri']}")
    return 0
