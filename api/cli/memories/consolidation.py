"""``engramlog consolidation``: rules, their runs, and their progress."""

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

from engramlog.api.cli.arguments import CommandError
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import Client, path_segment

STEP_EPISODES = 10_000
"""Episodes per request, so that no request exceeds the client's timeout."""
EXAMPLES = """\
examples:
  engramlog consolidation rules --data memory --set rule.json
  engramlog consolidation rules --data memory
  engramlog consolidation run classifier --data memory --dry-run
  engramlog consolidation run classifier --data memory --from 1
  engramlog consolidation status --data memory
"""


def _cadence(cadence: dict[str, Any]) -> str:
    if "every" in cadence:
        return f"every {cadence['every']} episodes"
    return f"cron {cadence['cron']} {cadence['tz']}"


RULES = Request(
    "GET /v1/consolidation/rules",
    table(
        {
            "rule": "rule_id",
            "cadence": lambda each: _cadence(each["document"]["cadence"]),
            "scope": lambda each: each["document"].get("scope", "local"),
            "version": "version",
            "description": lambda each: each["document"].get("description", ""),
        },
        empty="no rules",
    ),
    part="rules",
)
STATUS = Request(
    "GET /v1/consolidation/status",
    table(
        {
            "rule": "rule_id",
            "cadence": lambda each: _cadence(each["cadence"]),
            "watermark": "watermark",
            "waiting": "pending",
            "next": lambda each: "-" if each["next_fire"] is None else each["next_fire"][:19],
            "read": "read",
            "set aside": lambda each: len(each["quarantined"]),
        },
        "rules",
        "no rules",
    ),
)


def register(commands: Subcommands) -> None:
    group = commands.group("consolidation", "make facts from episodes by rules", EXAMPLES)
    parser = group.reaching("run", "run a rule now", run_rule)
    parser.add_argument("rule", metavar="RULE", help="the rule's id")
    parser.add_argument("--dry-run", action="store_true", help="only show the result")
    parser.add_argument(
        "--from", dest="from_position", type=int, metavar="POSITION",
        help="read again from this position; applied deltas stay",
    )  # fmt: skip

    parser = group.reaching("rules", "list rules, set one or remove one", run_rules)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--set", type=Path, metavar="FILE", help="install the rule of a JSON file")
    what.add_argument("--remove", metavar="RULE", help="remove a rule; its facts stay")

    group.reaching("status", "show the progress of each rule", STATUS)


def run_rule(args: argparse.Namespace) -> int:
    """Run a rule in steps until no episodes are left."""
    path = f"/v1/consolidation/rules/{path_segment(args.rule, safe='')}/run"
    with reach(args) as client:
        report = _dry(client, path, args) if args.dry_run else _all_steps(client, path, args)
    if args.json:
        return print_json(report)
    kinds = ", ".join(f"{count} {kind}" for kind, count in report["kinds"].items() if count)
    verb = "would read" if args.dry_run else "read"
    print(f"{verb} {report['episodes']} episodes: {kinds or 'nothing to do'}")
    for name, what in (
        ("known", "had been applied before"),
        ("rejected", "conflict with the facts (engramlog consolidation status)"),
        ("gated", "are under the salience threshold"),
    ):
        if report[name]:
            print(f"{report[name]} {what}")
    for each in report["quarantined"]:
        print(f"set aside {each['id']}: {each['reason']}")
    return 0


def _dry(client: Client, path: str, args: argparse.Namespace) -> dict[str, Any]:
    body = {"dry_run": True}
    if args.from_position is not None:
        body["from_position"] = args.from_position
    return client.post(path, body)


def _all_steps(client: Client, path: str, args: argparse.Namespace) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    start = args.from_position
    with tqdm(unit=" episodes", disable=not sys.stderr.isatty()) as bar:
        while True:
            body: dict[str, Any] = {"limit": STEP_EPISODES}
            if start is not None:
                body["from_position"] = start
            step: dict[str, Any] = client.post(path, body)
            bar.update(step["episodes"])
            whole = _added(whole, step) if whole else step
            if not step["more"] or not step["episodes"]:
                return whole
            if start is not None:
                start = step["to_position"] + 1


def _added(whole: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    sums = ("episodes", "applied", "known", "rejected", "gated", "quarantined", "deltas")
    kinds = {kind: whole["kinds"][kind] + count for kind, count in step["kinds"].items()}
    later = {name: step[name] for name in ("to_position", "raced", "more")}
    return {**whole, **{name: whole[name] + step[name] for name in sums}, **later, "kinds": kinds}


def run_rules(args: argparse.Namespace) -> int:
    file: Path | None = args.set
    if file is None and args.remove is None:
        return RULES(args)
    with reach(args, create=file is not None) as client:
        if file is None:
            client.delete(f"/v1/consolidation/rules/{path_segment(args.remove, safe='')}")
            print(f"removed {args.remove}")
            return 0
        document = _document(file)
        path = f"/v1/consolidation/rules/{path_segment(document['id'], safe='')}"
        rule = client.request("PUT", path, body=document)
    print_json(rule) if args.json else print(
        f"rule {rule['rule_id']} is in force, version {rule['version']}"
    )
    return 0


def _document(path: Path) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except ValueError as fault:
        raise CommandError(f"{path} is not a JSON object: {fault}") from fault
    if not isinstance(document.get("id"), str):
        raise CommandError(f"{path} has no 'id'")
    return document
