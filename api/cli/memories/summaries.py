"""``engramlog summaries``: import a folder of Markdown summaries, and list summaries."""

import argparse
import sys
from pathlib import Path
from typing import Any

from engramlog.api.cli.arguments import CommandError, add_moment_argument
from engramlog.api.cli.progress import progress_bar
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, fields_of, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import fitted, print_json
from engramlog.api.client.client import Client, ClientError
from engramlog.api.node.tasks.summary_folder import UnusableSummary, read_summary, summary_files
from engramlog.projections.memories.summary_naming import TIERS

BATCH = 50
BATCH_CHARACTERS_MAX = 4_000_000
SHOWN_CHARACTERS = 60
EXAMPLES = """\
examples:
  engramlog summaries import notes --data memory
  engramlog summaries import notes --data memory --scope team --source user:mara --json
  engramlog summaries list --data memory --tier weekly --since 2026-06-01
  engramlog summaries list --data memory --as-of 2026-07-01T00:00:00Z --json
"""


def _beginning(summary: dict[str, Any]) -> str:
    return fitted(summary["paragraphs"][0]["text"].splitlines()[0], SHOWN_CHARACTERS)


LIST = Request(
    "GET /v1/summaries",
    table(
        {
            "from": "period_start",
            "tier": "tier",
            "source": "source",
            "paragraphs": lambda each: len(each["paragraphs"]),
            "begins": _beginning,
        },
        empty="no summaries",
    ),
    part="summaries",
    page_max=200,
)


def register(commands: Subcommands) -> None:
    group = commands.group("summaries", "import Markdown summaries, and list them", EXAMPLES)
    parser = group.reaching("import", "record the summaries of a folder", run_import)
    parser.add_argument(
        "folder",
        metavar="DIR",
        type=Path,
        help="holds {daily,weekly,quarterly}/, or these under consolidation/",
    )
    parser.add_argument("--scope", default="local", help="default: local")
    parser.add_argument("--garden", dest="garden_id", help="a garden in it")
    parser.add_argument("--source", help="their owner (default: the caller)")

    parser = group.reaching("list", "list summaries, newest period first", LIST)
    parser.add_argument("--tier", choices=TIERS, help="only this tier")
    for name, place in (("since", "later"), ("until", "before")):
        help_text = f"only periods that begin on this day or {place}"
        parser.add_argument(f"--{name}", metavar="DAY", help=help_text)
    parser.add_argument("--source", help="only this owner")
    parser.add_argument("--scope", help="only this scope")
    add_moment_argument(parser)
    parser.add_argument("--limit", type=int, default=20, help="most summaries (default: 20)")


def run_import(args: argparse.Namespace) -> int:
    """Record every summary of a folder; unchanged ones are skipped."""
    try:
        folder = summary_files(args.folder)
    except OSError as fault:
        raise CommandError(str(fault)) from fault
    where = fields_of(args)
    del where["folder"]
    files = folder.files
    ignored = [{"name": name, "reason": why} for name, why in folder.ignored.items()]
    for each in ignored:
        print(f"{each['name']}: {each['reason']}", file=sys.stderr)
    total: dict[str, Any] = {
        "recorded": 0, "unchanged": 0, "summaries": [], "skipped": [], "ignored": ignored,
    }  # fmt: skip
    few = len(files) <= BATCH
    with reach(args, create=True) as client, progress_bar("import", "file", quiet=few) as bar:
        batch: list[dict[str, str]] = []
        for done, (name, path) in enumerate(files.items(), 1):
            try:
                read = read_summary(path, sys.maxsize)
            except (OSError, UnusableSummary) as fault:
                total["skipped"].append({"name": name, "reason": str(fault)})
                print(f"skipped {name}: {fault}", file=sys.stderr)
            else:
                held = sum(len(each["text"]) for each in batch)
                if len(batch) == BATCH or held + len(read.text) > BATCH_CHARACTERS_MAX:
                    _send(client, batch, where, total)
                    batch = []
                batch.append({"name": name, "text": read.text})
            bar.show(done, len(files))
        _send(client, batch, where, total)
    if args.json:
        print_json(total)
    else:
        print(f"recorded {total['recorded']} summaries, {total['unchanged']} unchanged")
    return 1 if total["skipped"] else 0


def _send(
    client: Client, batch: list[dict[str, str]], where: dict[str, str], total: dict[str, Any]
) -> None:
    """Record a batch; if the node refuses it, each file by itself, and report those refused. Raises
    ClientError: none is taken."""
    if not batch:
        return
    try:
        answer = client.post("/v1/summaries", {"summaries": batch, **where})
    except ClientError as fault:
        if fault.status not in (413, 422) or len(batch) == 1:
            raise
        _send_singly(client, batch, where, total)
        return
    for name in ("recorded", "unchanged", "summaries"):
        total[name] += answer[name]


def _send_singly(
    client: Client, batch: list[dict[str, str]], where: dict[str, str], total: dict[str, Any]
) -> None:
    refused: list[tuple[str, ClientError]] = []
    for each in batch:
        try:
            _send(client, [each], where, total)
        except ClientError as fault:
            refused.append((each["name"], fault))
    if len(refused) == len(batch):
        raise refused[0][1]
    for name, fault in refused:
        total["skipped"].append({"name": name, "reason": str(fault)})
        print(f"skipped {name}: {fault}", file=sys.stderr)
