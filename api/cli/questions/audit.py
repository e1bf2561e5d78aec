"""``engramlog audit``: past states, changes, who made them, and SQL over the log."""

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from engramlog.api.cli.arguments import CommandError, add_target_arguments, named
from engramlog.api.cli.output_file import output_file
from engramlog.api.cli.questions.entity import fact_text_of, stated
from engramlog.api.cli.reach import reach
from engramlog.api.cli.subcommands import Run, Subcommands
from engramlog.api.cli.text_tables import day, print_json, print_table, short_name, value_text
from engramlog.api.client.client import Client, path_segment

EXAMPLES = """\
examples:
  engramlog audit state --as-of 1990-01-01T00:00:00Z --relation space:moon-count --data demo
  engramlog audit diff --from position:100 --to position:200 --data demo
  engramlog audit fact 018bcfe5-… --data demo
  engramlog audit entity stigmem://spaceflight.example/body/saturn --data demo
  engramlog audit sql "SELECT kind, count(*) FROM events GROUP BY kind" --data demo
  engramlog audit fork what-if.json --as-of position:100 --data demo
  engramlog audit sql "SELECT * FROM facts" --format parquet --output facts.parquet --data demo
"""
CHANGES = ("added", "retracted", "decayed", "resolved")
FORMATS = ("table", "json", "csv", "parquet")
PAGE = 500


def register(commands: Subcommands) -> None:
    group = commands.group("audit", "show past states, changes and their authors", EXAMPLES)
    parser = group.add("state", "list the facts of a moment", run_state)
    _add_filters(parser)
    parser.add_argument(
        "--as-of", type=named, metavar="MOMENT", help="an instant, position:N, or an HLC"
    )
    _add_output(parser, formats=("table", "json"))
    parser.add_argument("--limit", type=int, default=100, help="most facts (default: 100)")

    parser = group.add("diff", "list the changes between two moments", run_diff)
    parser.add_argument("--from", dest="since", required=True, metavar="MOMENT", help="the earlier")
    parser.add_argument("--to", metavar="MOMENT", help="the later (default: now)")
    parser.add_argument("--change", choices=CHANGES, help="only this kind of change")
    _add_filters(parser)
    _add_output(parser)

    for name, what, kind in (
        ("fact", "show the events and confidence of a fact", "facts"),
        ("entity", "list the events of an entity", "entities"),
    ):
        parser = group.add(name, what, run_life)
        parser.set_defaults(kind=kind)
        parser.add_argument("name", metavar=name.upper(), help=f"the {name}")
        parser.add_argument("--as-of", type=named, metavar="MOMENT", help="its history until then")
        _add_output(parser)

    parser = group.add("fork", "answer a question with supposed changes", run_fork)
    parser.add_argument(
        "document", metavar="FILE", help="JSON with suppose and recall or state; - for stdin"
    )
    parser.add_argument("--as-of", type=named, metavar="MOMENT", help="the moment (default: now)")
    _add_output(parser, formats=("table", "json"))

    parser = group.add("sql", "run one SELECT over the documented views", run_sql)
    parser.add_argument("statement", metavar="SQL", help="the statement, or - for stdin")
    parser.add_argument("--as-of", type=named, metavar="MOMENT", help="over the log until then")
    parser.add_argument("--limit", type=int, default=1000, help="most rows (default: 1000)")
    _add_output(parser)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    for name in ("entity", "relation", "source", "scope"):
        parser.add_argument(f"--{name}", type=named, help=f"only facts of this {name}")


def _add_output(parser: argparse.ArgumentParser, formats: tuple[str, ...] = FORMATS) -> None:
    add_target_arguments(parser)
    parser.add_argument("--format", choices=formats, default="table", help="default: table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there, not to stdout")


def _to_output(run: Run) -> Run:
    """A command that writes to the file of ``--output``, if one is given."""

    @wraps(run)
    def running(args: argparse.Namespace) -> int:
        if args.output is None:
            return run(args)
        with output_file(args.output) as out:
            text = TextIOWrapper(out, "utf-8")
            with redirect_stdout(text):
                code = run(args)
            text.detach()  # flushes, and leaves the file open
        return code

    return running


@_to_output
def run_state(args: argparse.Namespace) -> int:
    query = {**_filters(args), "as_of": args.as_of}
    with reach(args) as client:
        facts, page = client.items("/v1/time-travel/state", "facts", query, args.limit, PAGE)
    moment = page["moment"]
    if args.format == "json":
        return print_json({"facts": facts, "moment": moment})
    rows = [_fact_row(fact) for fact in facts]
    print_table(("entity", "relation", "value", "conf", "source", "recorded"), rows)
    print(f"{len(rows)} facts at position {moment['position']}")
    return 0


@_to_output
def run_diff(args: argparse.Namespace) -> int:
    query = {**_filters(args), "from": args.since, "to": args.to, "change": args.change,
             "limit": PAGE}  # fmt: skip
    with reach(args) as client:
        if args.format in ("csv", "parquet"):
            return _raw(args, client, "GET", "/v1/time-travel/diff", query=query)
        answer = client.get("/v1/time-travel/diff", query)
    if args.format == "json":
        return print_json(answer)
    rows = [[change, *_fact_row(fact)] for change in CHANGES for fact in answer.get(change) or ()]
    if rows:
        headings = ("change", "entity", "relation", "value", "conf", "source", "recorded")
        print_table(headings, rows)
    counts = answer["counts"]
    print(", ".join(f"{counts[change]} {change}" for change in CHANGES))
    return 0


@_to_output
def run_life(args: argparse.Namespace) -> int:
    path = f"/v1/time-travel/{args.kind}/{path_segment(args.name, safe='')}"
    query = {"as_of": args.as_of, "limit": 1000}
    with reach(args) as client:
        if args.format in ("csv", "parquet"):
            return _raw(args, client, "GET", path, query=query)
        answer = client.get(path, query)
    if args.format == "json":
        return print_json(answer)
    fact = answer.get("fact")  # null for an erased one
    fact_texts = stated(answer.get("stated", [fact] if fact else []))
    rows = [
        [
            str(each["position"]), each["received_at"], each["kind"],
            *fact_text_of(each, fact_texts), short_name(each["actor"]),
            each["peer"] or "", each["reason"] or each["note"] or "",
        ]
        for each in answer["events"]
    ]  # fmt: skip
    headings = ("position", "received", "event", "relation", "value", "actor", "peer", "why")
    print_table(headings, rows, empty="no events")
    for point in answer.get("belief") or ():
        print(f"confidence {point['confidence']:g} from {point['at']} ({point['cause']})")
    return 0


@_to_output
def run_fork(args: argparse.Namespace) -> int:
    """Print how hypothetical facts would change an answer."""
    try:
        data = sys.stdin.buffer.read() if args.document == "-" else Path(args.document).read_bytes()
        body: Any = json.loads(data)
    except ValueError as fault:
        raise CommandError(f"{args.document}: {fault}") from fault
    if args.as_of is not None and isinstance(body, dict):
        body = {**cast(dict[str, Any], body), "as_of": args.as_of}
    with reach(args) as client:
        answer = client.post("/v1/time-travel/fork", body)
    if args.format == "json":
        return print_json(answer)
    found = {each.get("fact", each)["id"]: each.get("fact", each)
             for part in ("without", "with") for each in answer[part]["facts"]}  # fmt: skip
    rows = [
        [change, *_fact_row(found[name]), detail]
        for change in ("added", "removed", "moved", "changed")
        for name, detail in map(_difference, answer["difference"].get(change) or ())
    ]
    headings = ("change", "entity", "relation", "value", "conf", "source", "recorded", "how")
    print_table(headings, rows, empty="no difference")
    return 0


def _difference(item: Any) -> tuple[str, str]:
    """The fact of a difference, and the difference."""
    if isinstance(item, str):
        return item, ""
    if "fields" in item:
        return item["id"], ", ".join(item["fields"])
    if "rank" in item:
        return item["id"], f"rank {item['rank']}"
    return item["id"], f"rank {item['before']} to {item['after']}"


@_to_output
def run_sql(args: argparse.Namespace) -> int:
    statement = sys.stdin.read() if args.statement == "-" else args.statement
    body = {"sql": statement, "as_of": args.as_of, "limit": args.limit}
    path = "/v1/time-travel/sql"
    with reach(args) as client:
        if args.format in ("csv", "parquet"):
            return _raw(args, client, "POST", path, body={**body, "format": args.format})
        answer = client.post(path, body)
    if args.format == "json":
        return print_json(answer)
    headings = [column["name"] for column in answer["columns"]]
    print_table(headings, [["" if v is None else str(v) for v in row] for row in answer["rows"]])
    cut = ", more follow" if answer["truncated"] else ""
    count = len(answer["rows"])
    print(f"{count} {'row' if count == 1 else 'rows'}{cut}")
    return 0


def _filters(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("entity", "relation", "source", "scope")}


def _fact_row(fact: dict[str, Any]) -> list[str]:
    return [
        short_name(fact["entity"]),
        fact["relation"],
        value_text(fact["value"]),
        f"{fact['confidence']:g}",
        short_name(fact["source"]),
        day(fact["timestamp"]),
    ]


def _raw(
    args: argparse.Namespace,
    client: Client,
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: object = None,
) -> int:
    """Write a file's bytes. Raises CommandError for Parquet on a terminal."""
    if args.format == "parquet" and sys.stdout.isatty():
        raise CommandError("give --output for a Parquet file")
    file_query = None if query is None else {**query, "format": args.format}
    sys.stdout.buffer.write(client.fetch(method, path, query=file_query, body=body))
    return 0
