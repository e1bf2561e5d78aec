"""``engramlog show`` and ``engramlog history``: an entity's facts, and their past."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from engramlog.api.cli.arguments import (
    CommandError,
    add_moment_argument,
    add_target_arguments,
    named,
)
from engramlog.api.cli.reach import reach
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import (
    day,
    print_json,
    print_table,
    short_name,
    since,
    value_text,
)
from engramlog.api.client.client import Client, path_segment
from engramlog.api.client.lives import EVENTS_PAGE, add_page, next_page

SHOW_EXAMPLES = """\
examples:
  engramlog show user:ann
  engramlog show user:ann --as-of 2026-11-22 --data memory
"""
HISTORY_EXAMPLES = """\
examples:
  engramlog history user:ann
  engramlog history user:ann --data memory --json
"""
FACTS_MAX = 500


def register(commands: Subcommands) -> None:
    for name, summary, examples, run in (
        ("show", "show the facts of an entity", SHOW_EXAMPLES, run_show),
        ("history", "list the changes of an entity's facts", HISTORY_EXAMPLES,
         run_history),
    ):  # fmt: skip
        parser = commands.add(name, summary, run, examples)
        parser.add_argument("entity", type=named, metavar="ENTITY", help="such as user:ann")
        add_moment_argument(parser)
        add_target_arguments(parser, json=True)


def run_show(args: argparse.Namespace) -> int:
    """Print the facts of an entity, newest first; exit code 1 if it has none."""
    query = {"entity": args.entity, "as_of": args.as_of, "limit": FACTS_MAX}
    with reach(args) as client:
        page = client.get("/v1/facts", {**query, "include_contradicted": True})
    facts = page["facts"]
    if args.json:
        print_json(page)
        return 0 if facts else 1
    if not facts:
        raise _nothing_about(args.entity)
    rows = [
        [
            fact["relation"], value_text(fact["value"]), f"{fact['confidence']:g}",
            "contradicted" if fact["contradicted"] else "", short_name(fact["source"]),
            since(fact), fact["id"],
        ]
        for fact in facts
    ]  # fmt: skip
    print_table(("relation", "value", "conf", "", "source", "since", "id"), rows)
    return 0


def run_history(args: argparse.Namespace) -> int:
    """Print the events that changed an entity's facts, oldest first; ``receipts`` has recalls."""
    path = f"/v1/time-travel/entities/{path_segment(args.entity, safe='')}"
    with reach(args) as client:
        life = _whole_life(client, path, args.as_of)
    if args.json:
        return print_json(life)
    if not life["events"]:
        raise _nothing_about(args.entity)
    fact_texts = stated(life["stated"])
    rows = [
        [
            day(each["received_at"]), each["kind"], *fact_text_of(each, fact_texts),
            short_name(each["actor"]), each["reason"] or each["note"] or "",
        ]
        for each in life["events"]
    ]  # fmt: skip
    print_table(("on", "event", "relation", "value", "by", "why"), rows)
    return 0


def _whole_life(client: Client, path: str, as_of: str | None) -> dict[str, Any]:
    """All changes in a life."""
    query: dict[str, object] = {"only": "changes", "limit": EVENTS_PAGE}
    life: dict[str, Any] = client.get(path, {**query, "as_of": as_of})
    while (following := next_page(life)) is not None:
        add_page(life, client.get(path, {**query, **following}))
    return life


def fact_text_of(
    event: dict[str, Any], fact_texts: Mapping[str, tuple[str, str]]
) -> tuple[str, str]:
    """Relation and value of the first fact of a life's event."""
    return next((fact_texts[fact] for fact in event["fact_ids"] if fact in fact_texts), ("", ""))


def stated(facts: Sequence[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Relation and value of facts, by id."""
    return {fact["id"]: (fact["relation"], value_text(fact["value"])) for fact in facts}


def _nothing_about(entity: str) -> CommandError:
    hint = "" if ":" in entity else f"; entities have names such as user:{entity}"
    if hint and "/" in entity:
        hint = f"; tables leave out the beginning of stigmem://acme.example/{entity}"
    return CommandError(f"no facts about {entity}{hint}")
