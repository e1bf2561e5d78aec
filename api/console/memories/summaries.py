"""``engramlog summaries``: import a folder of Markdown summaries, and list summaries."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from engramlog.api.client.client import Client
from engramlog.api.console.arguments import CommandError, add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table
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


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("summaries", "import Markdown summaries, and list them", EXAMPLES)
    parser = group.add("import", "record the summaries of a folder", EXAMPLES, run_import)
    add_target_arguments(parser, json=True)
    parser.add_argument(
        "folder",
        metavar="DIR",
        type=Path,
        help="holds {daily,weekly,quarterly}/, or these under consolidation/",
    )
    parser.add_argument("--scope", default="local", help="default: local")
    parser.add_argument("--garden", dest="garden_id", help="a garden in it")
    parser.add_argument("--source", help="their owner (default: the caller)")

    parser = group.add("list", "list summaries, newest period first", EXAMPLES, run_list)
    add_target_arguments(parser, json=True)
    parser.add_argument("--tier", choices=TIERS, help="only this tier")
    parser.add_argument(
        "--since", metavar="DAY", help="only periods that begin on this day or later"
    )
    parser.add_argument(
        "--until", metavar="DAY", help="only periods that begin on this day or before"
    )
    parser.add_argument("--source", help="only this owner")
    parser.add_argument("--scope", help="only this scope")
    parser.add_argument(
        "--as-of", metavar="MOMENT", help="as known then: an instant, position:N, or an HLC"
    )
    parser.add_argument("--limit", type=int, default=20, help="most summaries (default: 20)")


def run_import(args: argparse.Namespace) -> int:
    """Record every summary of a folder; unchanged ones are skipped."""
    try:
        folder = summary_files(args.folder)
    except OSError as fault:
        raise CommandError(str(fault)) from fault
    where = {
        name: getattr(args, name)
        for name in ("scope", "garden_id", "source")
        if getattr(args, name) is not None
    }
    files = folder.files
    ignored = [{"name": name, "reason": why} for name, why in folder.ignored.items()]
    for each in ignored:
        print(f"{each['name']}: {each['reason']}", file=sys.stderr)
    total: dict[str, Any] = {
        "recorded": 0, "unchanged": 0, "summaries": [], "skipped": [], "ignored": ignored,
    }  # fmt: skip
    with reach(args, create=True) as client, tqdm(
        total=len(files), unit=" files", disable=len(files) <= BATCH or not sys.stderr.isatty()
    ) as bar:  # fmt: skip
        batch: list[dict[str, str]] = []
        for name, path in files.items():
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
            bar.update()
        _send(client, batch, where, total)
    if args.json:
        print_json(total)
    else:
        print(f"recorded {total['recorded']} summaries, {total['unchanged']} unchanged")
    return 1 if total["skipped"] else 0


def _send(
    client: Client, batch: list[dict[str, str]], where: dict[str, str], total: dict[str, Any]
) -> None:
    if not batch:
        return
    answer = client.post("/v1/summaries", {"summaries": batch, **where})
    for name in ("recorded", "unchanged", "summaries"):
        total[name] += answer[name]


def run_list(args: argparse.Namespace) -> int:
    """List summaries."""
    names = ("tier", "since", "until", "source", "scope", "as_of")
    query = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    with reach(args) as client:
        found = client.items("/v1/summaries", "summaries", query, args.limit, 200)
    if args.json:
        return print_json(found)
    rows = [
        [
            each["period_start"],
            each["tier"],
            each["source"],
            str(len(each["paragraphs"])),
            _beginning(each["paragraphs"][0]["text"]),
        ]
        for each in found
    ]
    columns = ("from", "tier", "source", "paragraphs", "begins")
    print_table(columns, rows, empty="no summaries")
    return 0


def _beginning(text: str) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
