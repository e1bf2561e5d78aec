"""``engramlog recall`` and ``engramlog facts``: questions, now or as of an earlier moment."""

import argparse
from typing import Any

from engramlog.api.cli.arguments import (
    CommandError,
    add_moment_argument,
    add_target_arguments,
    named,
    user_named,
)
from engramlog.api.cli.questions.keyword_recall import (
    KEYWORDS_ONLY,
    PROFILE_OF_INTENT,
    add_keyword_arguments,
    run_keyword_recall,
    stage_lines,
)
from engramlog.api.cli.questions.receipts import run_replay
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import fields_of
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import (
    day,
    print_json,
    print_table,
    short_name,
    since,
    value_text,
)

RECALL_EXAMPLES = """\
examples:
  engramlog recall "who leads atlas" --data memory --scope company
  engramlog recall "how many moons has Saturn" --as-of 1990-01-01T00:00:00Z --scope public
  engramlog recall "who leads atlas" --url http://127.0.0.1:8765 --json
  engramlog recall "who leads atlas" --profile abmind --explain
  engramlog recall --translated "project,deadline" --topic work --limit 5
  engramlog recall replay latest --data memory      the last question again, then and now
"""
FACTS_EXAMPLES = """\
examples:
  engramlog facts --data memory --entity stigmem://acme.example/user/ann
  engramlog facts --relation memory:role --as-of position:1200
  engramlog facts --entity user:ann --valid-at 2024-06-01T00:00:00Z --json
"""
PAGE_FACTS_MAX = 500


def register(commands: Subcommands) -> None:
    parser = commands.add(
        "recall", "find the facts that answer a question best", run_recall, RECALL_EXAMPLES
    )
    parser.add_argument(
        "query", metavar="QUERY", nargs="?", help="the question; or the word replay"
    )
    parser.add_argument(
        "receipt", metavar="RECEIPT", nargs="?", help="after replay: a receipt's id, or latest"
    )
    add_target_arguments(parser, json=True)
    _add_moment(parser)
    parser.add_argument(
        "--scope", default="*", help="local, team, company, public, or * for all (default: *)"
    )
    parser.add_argument("--budget", type=int, metavar="TOKENS", help="token budget (default: 4000)")
    parser.add_argument("--limit", type=int, default=10, help="most facts to show (default: 10)")
    parser.add_argument("--profile", metavar="NAME", help="recall profile")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also the numbers behind each score, and hits and time of each stage",
    )
    add_keyword_arguments(parser)
    parser.set_defaults(refuse=parser.error)

    parser = commands.reaching("facts", "list facts", run_facts, FACTS_EXAMPLES)
    _add_moment(parser)
    for name in ("entity", "relation", "source", "scope"):
        parser.add_argument(f"--{name}", type=named, help=f"only facts of this {name}")
    for name, what in (
        ("retracted", "facts that no longer hold"),
        ("expired", "facts that are no longer valid"),
        ("contradicted", "both sides of contradictions"),
    ):
        parser.add_argument(f"--include-{name}", action="store_true", help=f"also {what}")
    parser.add_argument("--limit", type=int, default=50, help="most facts to show (default: 50)")


def _add_moment(parser: argparse.ArgumentParser) -> None:
    add_moment_argument(parser)
    parser.add_argument(
        "--valid-at", type=named, metavar="INSTANT", help="as it held in the world then"
    )


def run_recall(args: argparse.Namespace) -> int:
    """Print the answer, best first; or repeat a receipt's question."""
    if (args.query is None) == (args.translated is None):
        args.refuse("give a question, or keywords with --translated")
    if args.translated is not None:
        return run_keyword_recall(args)
    for name in KEYWORDS_ONLY:
        if getattr(args, name) is not None and getattr(args, name) is not False:
            args.refuse(f"--{name.replace('_', '-')} needs keywords (--translated)")
    if args.receipt is not None:
        if args.query != "replay":
            raise CommandError("put the question in quotes: it must be one argument")
        return run_replay(args)
    body: dict[str, Any] = {"query": args.query, "scope": args.scope, "limit": args.limit}
    optional = {
        "as_of": args.as_of,
        "valid_at": args.valid_at,
        "token_budget": args.budget,
        "profile": args.profile or PROFILE_OF_INTENT.get(args.intent),
        "intent": args.intent,
        "source": None if args.user_id is None else user_named(args.user_id),
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    if args.explain:
        body["explain"] = True
    with reach(args, embedding="asked") as client:
        answer = client.post("/v1/recall", body)
    if args.json:
        return print_json(answer)
    print_recall(answer)
    if args.explain:
        print("\n".join([*number_lines(answer), *stage_lines(answer)]))
    return 0


def print_recall(answer: dict[str, Any]) -> None:
    rows = [
        [
            f"{item['score']:.3f}",
            short_name(item["fact"]["entity"]),
            item["fact"]["relation"],
            value_text(item["fact"]["value"]),
            since(item["fact"]),
        ]
        for item in answer["facts"]
    ]
    if rows:
        print_table(("score", "entity", "relation", "value", "since"), rows)
    elif answer.get("search_skipped"):
        print("not searched: too many facts contain every word of it")
    else:
        print("nothing found")
    if rows and answer["weak_evidence"]:
        print("weak evidence: none of these may answer the question")
    if answer.get("hint"):
        print(f"hint: {_hint(answer['hint'])}")
    cut = "; more with a higher --limit or --budget" if answer["truncated"] else ""
    by = "" if answer["embedding"]["enabled"] else "; by words and graph alone"
    print(f"{len(rows)} of {answer['total_scored']} facts, {answer['tokens_used']} tokens{by}{cut}")


def number_lines(answer: dict[str, Any]) -> list[str]:
    """Every number behind each score, if the answer has them."""
    lines: list[str] = []
    for place, item in enumerate(answer["results"], 1):
        numbers = item.get("explain")
        if not numbers:
            continue
        stages = [
            f"{name} {part['normalised']:.3f} x {part['weight']:.3f}"
            for name, part in numbers["stages"].items()
        ]
        if "session" in numbers:
            stages.append(f"session {numbers['session']:.3f}")
        factors = [f"{name} {value:.3f}" for name, value in numbers["factors"].items()]
        lines.append(f"{place}: {', '.join(stages)}; {', '.join(factors)}")
        if place == 1 and "certainty" in numbers:
            parts = [f"{name} {value:.3f}" for name, value in numbers["certainty"].items()]
            lines.append(f"certainty: {', '.join(parts)}")
    return lines


def _hint(hint: Any) -> str:
    if isinstance(hint, dict):
        return str(hint.get("message", hint))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return str(hint)


def run_facts(args: argparse.Namespace) -> int:
    with reach(args) as client:
        query = {"prefer": "source", **fields_of(args)}
        facts, page = client.items("/v1/facts", "facts", query, args.limit, PAGE_FACTS_MAX)
    if args.json:
        return print_json({"facts": facts, "total": page["total"]})
    print_facts(facts)
    print(f"{len(facts)} of {page['total']} facts")
    return 0


def print_facts(facts: list[dict[str, Any]]) -> None:
    rows = [
        [
            short_name(fact["entity"]),
            fact["relation"],
            value_text(fact["value"]),
            f"{fact['confidence']:.2f}" + ("!" if fact["contradicted"] else ""),
            f"{day(fact.get('valid_from'))}..{day(fact.get('valid_until'))}",
            fact["scope"],
            short_name(fact["source"]),
            day(fact["timestamp"]),
        ]
        for fact in facts
    ]
    if rows:
        headings = ("entity", "relation", "value", "conf", "valid", "scope", "source", "recorded")
        print_table(headings, rows)
