"""``engramlog remember``, ``assert`` and ``retract``: one fact at a time."""

import argparse
import getpass
import json
from typing import Any

from engramlog.api.cli.arguments import CommandError, add_target_arguments, url_of, user_named, warn
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, fields_of
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import fact_text, print_json
from engramlog.api.client.client import Client
from engramlog.api.python.values import user_uri
from engramlog.api.schemas.values import typed_value

REMEMBER_EXAMPLES = """\
examples:
  engramlog remember "Ann moved to Graz" --user ann
  engramlog remember "the door code changes on Fridays" --data memory
"""
ASSERT_EXAMPLES = """\
JSON numbers, true, false and null keep their type, unless --text is given.

examples:
  engramlog assert user:ann memory:role CEO
  engramlog assert user:ann memory:age 42 --confidence 0.8
  engramlog assert user:ann memory:works-at --ref org:acme --valid-from 2026-11-22
"""
RETRACT_EXAMPLES = """\
examples:
  engramlog retract 018bcfe5-… --reason "left the company"
"""

RETRACT = Request(
    "POST /v1/facts/{id}/retract",
    lambda _, answer: print(
        f"{fact_text(answer['fact'])}: retracted at position {answer['position']}"
    ),
)


def register(commands: Subcommands) -> None:
    parser = commands.add("remember", "store a text", run_remember, REMEMBER_EXAMPLES)
    parser.add_argument("text", metavar="TEXT", help="what to remember")
    parser.add_argument("--user", help="owner of the memory (default: you)")
    _add_common(parser)

    parser = commands.add("assert", "state one fact", run_assert, ASSERT_EXAMPLES)
    parser.add_argument("entity", metavar="ENTITY", help="the entity, such as user:ann")
    parser.add_argument("relation", metavar="RELATION", help="such as memory:role")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="a text, a number, true, false")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--ref", metavar="ENTITY", help="another entity as the value: an edge")
    kind.add_argument("--text", action="store_true", help="the value is text")
    parser.add_argument("--source", metavar="URI", help="the source (default: you)")
    parser.add_argument("--confidence", type=float, metavar="0..1", help="default: 1")
    parser.add_argument("--valid-from", metavar="WHEN", help="an instant or a date")
    parser.add_argument("--valid-until", metavar="WHEN", help="an instant or a date")
    _add_common(parser)

    parser = commands.add("retract", "end a fact", RETRACT, RETRACT_EXAMPLES)
    parser.add_argument("id", metavar="ID", help="the fact's id, as show prints it")
    parser.add_argument("--reason", default="", help="a note for the log")
    add_target_arguments(parser, json=True)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", default="local",
                        help="local, team, company or public (default: local)")  # fmt: skip
    add_target_arguments(parser, json=True)


def run_remember(args: argparse.Namespace) -> int:
    """Store a text; exit code 1 if it is not stored."""
    with reach(args, create=True, embedding="begun") as client:
        owner = own_name(args, client) if args.user is None else user_named(args.user)
        body = {"content": args.text, "source": owner, "scope": args.scope}
        answer: dict[str, Any] = client.post("/v1/memories", body)
    warn(*answer.get("warnings", ()))
    if args.json:
        print_json(answer)
    elif not answer["stored"]:
        raise CommandError(f"not stored: {answer['error']}")
    else:
        known = "" if "fact" in answer else " (already known)"
        named = answer.get("fact", {"entity": owner})["entity"]
        print(f"{named} remembers{known}: {answer['id']}")
    return 0 if answer["stored"] else 1


def run_assert(args: argparse.Namespace) -> int:
    if (args.value is None) == (args.ref is None):
        raise CommandError("give either a VALUE or --ref ENTITY")
    value = (
        _value(args.value, text=args.text) if args.ref is None else {"type": "ref", "v": args.ref}
    )
    with reach(args, create=True, embedding="begun") as client:
        source = own_name(args, client) if args.source is None else args.source
        body = {**fields_of(args), "value": value, "source": source}
        for name in ("ref", "text"):
            body.pop(name, None)
        record: dict[str, Any] = client.post("/v1/facts", body)
    warn(*record.get("warnings", ()))
    if args.json:
        print_json(record)
    else:
        print(f"{fact_text(record)}: {record['id']}")
    return 0


def own_name(args: argparse.Namespace, client: Client) -> str:
    """The source: for a node by URL the key's entity, else this machine's user."""
    if url_of(args) is not None:
        return str(client.get("/v1/me")["entity_uri"])
    try:
        return user_uri(getpass.getuser())
    except (KeyError, OSError):  # in a container, a user may have no name
        return "user:me"


def _value(given: str, *, text: bool) -> object:
    """The value in the form of requests."""
    if text:
        return typed_value(given)
    try:
        found: object = json.loads(given)
    except ValueError:
        return typed_value(given)
    return typed_value(given if isinstance(found, str | list | dict) else found)
