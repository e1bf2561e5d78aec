"""``engramlog names``: other names of entities, and which entity a name means."""

import argparse
from typing import Any

from engramlog.api.cli.requests import Request, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import day

EXAMPLES = """\
examples:
  engramlog names alias user:al stigmem://acme.example/user/alice --data memory
  engramlog names list --data memory
  engramlog names unalias user:al --data memory
  engramlog names resolve user:alise --data memory
"""

LIST = Request(
    "GET /v1/aliases",
    table(
        {
            "name": "raw_uri",
            "means": "canonical_uri",
            "kind": "kind",
            "since": lambda row: day(row["created_at"]),
        },
        empty="no aliases",
    ),
    listed=True,
)
UNALIAS = Request("DELETE /v1/aliases/{raw_uri}", says("{raw_uri} means itself"))
LAYERS = {1: "an entity with facts", 2: "an alias", 3: "a name like others", None: "unknown"}


def register(commands: Subcommands) -> None:
    group = commands.group("names", "give entities other names, and resolve names", EXAMPLES)
    alias = Request("POST /v1/aliases", _show_alias)
    parser = group.reaching("alias", "give an entity another name", alias, json=False)
    parser.add_argument("raw_uri", metavar="NAME", help="the other name")
    parser.add_argument("canonical_uri", metavar="ENTITY", help="the entity that it means")
    parser = group.reaching("unalias", "remove another name", UNALIAS, json=False)
    parser.add_argument("raw_uri", metavar="NAME", help="the name")
    parser = group.reaching("list", "list other names", LIST)
    parser.add_argument("--limit", type=int, default=1000, help="most to show (default: 1000)")
    parser.add_argument("--after", metavar="NAME", help="start after this name")
    resolve = Request("GET /v1/entities/resolve", _show_meant)
    parser = group.reaching("resolve", "find the entity that a name means or might mean", resolve)
    parser.add_argument("uri", metavar="NAME", help="the name")
    parser.add_argument("--top-k", type=int, default=5, help="most similar names (default: 5)")


def _show_alias(_: argparse.Namespace, made: dict[str, Any]) -> None:
    print(f"{made['raw_uri']} means {made['canonical_uri']}")
    for warning in made.get("warnings", ()):
        print(f"warning: {warning}")


def _show_meant(args: argparse.Namespace, found: dict[str, Any]) -> None:
    print(f"{found['best']} ({args.uri} is {LAYERS[found['resolution_layer']]})")
    for like in found["layer3_candidates"]:
        print(f"  {like['score']:.2f}  {like['uri']}")
