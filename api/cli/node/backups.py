"""``engramlog backup`` and ``engramlog restore``."""

import argparse
from pathlib import Path

from engramlog.api.cli.arguments import add_data_arguments, settings_of
from engramlog.api.cli.progress import Bar, progress_bar
from engramlog.api.cli.subcommands import Subcommands
from engramlog.eventlog.clock import SystemClock
from engramlog.replay.backups import Progress, check_backup, make_backup, restore_backup

EXAMPLES = """\
examples:
  engramlog backup /backups/monday --data memory             (served or not)
  engramlog backup /backups/monday --check
  engramlog restore /backups/monday --data restored

A backup holds the node's private key: keep it as safe as the node.
"""


def register(commands: Subcommands) -> None:
    parser = commands.add(
        "backup", "copy log, tables, vectors and keys to a new folder", run_backup, EXAMPLES
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new, or empty")
    add_data_arguments(parser)
    parser.add_argument("--check", action="store_true", help="check an existing backup")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser = commands.add("restore", "make a data directory from a backup", run_restore, EXAMPLES)
    parser.add_argument("folder", type=Path, metavar="BACKUP", help="made by engramlog backup")
    add_data_arguments(parser)
    parser.add_argument(
        "--epoch", type=int, help="higher than any of the lost node (default: the backup's + 1)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _shown(bar: Bar) -> Progress:
    return lambda _name, done, total: bar.show(done, total)


def run_backup(args: argparse.Namespace) -> int:
    with progress_bar("backup", "files", quiet=args.quiet) as bar:
        if args.check:
            manifest = check_backup(args.folder, _shown(bar))
        else:
            data = settings_of(args).data_dir
            manifest = make_backup(data, args.folder, SystemClock(), _shown(bar))
    what = "holds" if args.check else "was written with"
    print(f"{args.folder} {what} {manifest.node_id} up to position {manifest.position}")
    return 0


def run_restore(args: argparse.Namespace) -> int:
    data = settings_of(args).data_dir
    with progress_bar("restore", "files", quiet=args.quiet) as bar:
        manifest = restore_backup(args.folder, data, _shown(bar), epoch=args.epoch)
    print(f"{data} holds {manifest.node_id} up to position {manifest.position}, in a new epoch")
    return 0
