"""``engramlog snapshot``: copies of the tables at chosen positions, from which rebuilds start."""

import argparse
from typing import Any

from engramlog.api.client.client import Client
from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.progress import Bar, finished, progress_bar
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table

PATH = "/v1/admin/snapshots"
EXAMPLES = """\
examples:
  engramlog snapshot take --data memory                     (served or not)
  engramlog snapshot take --data memory --position 100000   (made from the log)
  engramlog snapshot list --data memory
  engramlog snapshot verify --data memory                   (every row of every snapshot)
  engramlog snapshot verify 100000 --data memory --replay   (and against the log)
  engramlog snapshot remove 100000 --data memory
"""


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("snapshot", "copy the views, for fast rebuilds", EXAMPLES)
    parser = group.add("take", "copy the current views, or build past ones", EXAMPLES,
                       run_take)  # fmt: skip
    add_target_arguments(parser, json=True)
    parser.add_argument(
        "--position", type=int, metavar="N", help="a past position, from the log (default: now)"
    )
    parser = group.add("list", "snapshots, and whether a rebuild can start from them", EXAMPLES,
                       run_list)  # fmt: skip
    add_target_arguments(parser, json=True)
    parser = group.add("verify", "check files, chain and digests", EXAMPLES, run_verify)
    add_target_arguments(parser, json=True)
    parser.add_argument("position", type=int, nargs="?", help="one snapshot (default: all)")
    parser.add_argument("--replay", action="store_true", help="rebuild it from the log and compare")
    parser = group.add("remove", "remove a snapshot", EXAMPLES, run_remove)
    add_target_arguments(parser, json=True)
    parser.add_argument("position", type=int)


def run_take(args: argparse.Namespace) -> int:
    """Take one and wait for it. Raises CommandError if it fails."""
    with reach(args) as client, progress_bar("snapshot", "step") as bar:
        client.post(PATH, {"position": args.position})
        taken = _finished(client, bar)
    if args.json:
        return print_json(taken)
    print(
        f"snapshot at position {taken['position']}: {taken['bytes']:,} bytes, "
        f"digest {taken['digest'][:16]}…"
    )
    return 0


def run_list(args: argparse.Namespace) -> int:
    """List them, newest first."""
    with reach(args) as client:
        found = client.get(PATH)
    if args.json:
        return print_json(found)
    rows = [_row(each) for each in found["snapshots"]]
    print_table(("position", "made at", "bytes", "by", "for a rebuild"), rows, empty="no snapshots")
    return 0


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    size = record["bytes"]
    return (
        str(record["position"]),
        str(record["made_at"] or "-")[:19],
        "-" if size is None else f"{size:,}",
        "the node" if record["automatic"] else "request",
        "fits" if record["reason"] is None else f"no: {record['reason']}",
    )


def run_verify(args: argparse.Namespace) -> int:
    """Verify one or all. Exit code 1 if one is bad."""
    with reach(args) as client, progress_bar("verify", "step") as bar:
        client.post(f"{PATH}/verify", {"position": args.position, "replay": args.replay})
        checked = _finished(client, bar)["checked"]
    if args.json:
        print_json({"checked": checked})
    else:
        for each in checked:
            print(f"snapshot {each['position']}: {each['fault'] or 'holds'}")
        if not checked:
            print("no snapshots")
    return 1 if any(each["fault"] for each in checked) else 0


def run_remove(args: argparse.Namespace) -> int:
    """Remove one."""
    with reach(args) as client:
        removed = client.delete(f"{PATH}/{args.position}")
    if args.json:
        print_json(removed)
    else:
        print(f"snapshot at position {removed['removed']} removed")
    return 0


def _finished(client: Client, bar: Bar) -> dict[str, Any]:
    """Wait for the job; its result. Raises CommandError if it failed."""
    return finished(lambda: client.get(PATH)["job"], "", bar, "steps")
