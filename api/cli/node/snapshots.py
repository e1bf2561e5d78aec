"""``engramlog snapshot``: copies of the tables at chosen positions, from which rebuilds start."""

import argparse
from typing import Any

from engramlog.api.cli.progress import Bar, finished, progress_bar
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import Client

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

LIST = Request(
    f"GET {PATH}",
    table(
        {
            "position": "position",
            "made at": lambda each: (each["made_at"] or "-")[:19],
            "bytes": lambda each: "-" if each["bytes"] is None else f"{each['bytes']:,}",
            "by": lambda each: "the node" if each["automatic"] else "request",
            "for a rebuild": lambda each: f"no: {each['reason']}" if each["reason"] else "fits",
        },
        "snapshots",
        "no snapshots",
    ),
)
REMOVE = Request(f"DELETE {PATH}/{{position}}", says("snapshot at position {removed} removed"))


def register(commands: Subcommands) -> None:
    group = commands.group("snapshot", "copy the views, for fast rebuilds", EXAMPLES)
    parser = group.reaching("take", "copy the current views, or build past ones", run_take)
    parser.add_argument(
        "--position", type=int, metavar="N", help="a past position, from the log (default: now)"
    )
    group.reaching("list", "snapshots, and whether a rebuild can start from them", LIST)
    parser = group.reaching("verify", "check files, chain and digests", run_verify)
    parser.add_argument(
        "position", metavar="POSITION", type=int, nargs="?", help="one snapshot (default: all)"
    )
    parser.add_argument("--replay", action="store_true", help="rebuild it from the log and compare")
    group.reaching("remove", "remove a snapshot", REMOVE).add_argument(
        "position", metavar="POSITION", type=int, help="as listed"
    )


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


def _finished(client: Client, bar: Bar) -> dict[str, Any]:
    """Wait for the job; its result. Raises CommandError if it failed."""
    return finished(lambda: client.get(PATH)["job"], "", bar, "steps")
