"""``engramlog decay``: policies and sweeps."""

import argparse

from engramlog.api.cli.progress import finished
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Column, Request, fields_of, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.projections.normalization import SCOPES

EXAMPLES = """\
examples:
  engramlog decay policies --data memory
  engramlog decay sweep --data memory --dry-run
  engramlog decay sweep --data memory --scope team --ttl-seconds 2592000
"""


def _or_dash(name: str) -> Column:
    return lambda policy: "-" if policy.get(name) is None else policy[name]


COLUMNS = ("id", "relation", "scope", "mode", "ttl_s", "half_life_s", "min_confidence")
POLICIES = Request(
    "GET /v1/decay/policies",
    table({name: _or_dash(name) for name in COLUMNS}, "policies", "no decay policies"),
)


def register(commands: Subcommands) -> None:
    group = commands.group("decay", "lower the confidence of old facts", EXAMPLES)
    parser = group.reaching("sweep", "run decay now", run_sweep)
    parser.add_argument("--dry-run", action="store_true", help="only count the facts")
    parser.add_argument("--scope", choices=SCOPES, help="default: all")
    parser.add_argument(
        "--ttl-seconds", type=float, help="retract older facts, instead of the stored policies"
    )
    parser.add_argument(
        "--min-confidence", type=float, help="retract facts below, instead of the stored policies"
    )
    group.reaching("policies", "list the stored policies", POLICIES)


def run_sweep(args: argparse.Namespace) -> int:
    with reach(args) as client:
        answer = client.post("/v1/decay/sweep", fields_of(args))
        if "job_id" in answer:
            path = f"/v1/decay/jobs/{answer['job_id']}"
            answer = finished(lambda: client.get(path), "the sweep failed: ")
    scanned = answer["scanned"]
    if args.json:
        print_json(answer)
    elif args.dry_run:
        print(f"would touch {answer['would_decay']} of {scanned} facts")
    else:
        print(f"touched {answer['decayed']} of {scanned} facts")
    return 0
