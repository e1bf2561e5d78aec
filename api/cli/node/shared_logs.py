"""``engramlog log`` and ``engramlog copy-log``: logs in PostgreSQL, and moving logs there."""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engramlog.api.cli.arguments import CommandError, add_data_arguments, settings_of
from engramlog.api.cli.progress import progress_bar
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.node.log_place import log_inside, log_shared
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.directory import DataDirectory, HeldDirectory, is_data_directory
from engramlog.eventlog.engines.log_addresses import is_log_url, require_driver
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.log import WholeLog
from engramlog.replay.copying import CopyDiffers, check_start, compare_logs, copy_log

EXAMPLES = """\
examples:
  engramlog log prepare postgresql://owner@db/engram --role node
  engramlog log adopt postgresql://owner@db/engram --data new      (its node's keys are lost)
  engramlog copy-log memory postgresql://node@db/engram
  engramlog copy-log postgresql://node@db/engram back     (back/identity holds the node's keys)
"""


def register(commands: Subcommands) -> None:
    group = commands.group("log", "prepare a log in PostgreSQL, or adopt one", EXAMPLES)
    parser = group.add("prepare", "make the tables of an empty log", run_prepare)
    parser.add_argument("url", metavar="URL", help="the database, as the owner of the tables")
    parser.add_argument(
        "--role", required=True, help="role of the nodes: it may append, and change nothing"
    )
    parser = group.add("adopt", "give a log whose keys are lost to another node", run_adopt)
    parser.add_argument("url", metavar="URL", help="the database, as the owner of the tables")
    add_data_arguments(parser)
    parser = commands.add(
        "copy-log", "copy a log to PostgreSQL or back, and verify it", run_copy, EXAMPLES
    )
    parser.add_argument("source", metavar="FROM", help="data directory, or postgresql:// address")
    parser.add_argument("target", metavar="TO", help="data directory, or postgresql:// address")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")


def run_prepare(args: argparse.Namespace) -> int:
    require_driver()
    from engramlog.eventlog.engines.postgres.schema import prepare

    prepare(args.url, args.role)
    print(f"the database holds an empty log; nodes connect as {args.role}")
    return 0


def run_adopt(args: argparse.Namespace) -> int:
    """Make the directory another node, and the log its own. It gets new keys: those that it has may
    be of a node that writes another log."""
    require_driver()
    from engramlog.eventlog.engines.postgres.adopting import adopt, adoptable

    data = settings_of(args).data_dir
    before = adoptable(args.url)
    if (data / "log.db").exists():
        raise CommandError(f"{data} contains a log: name another directory")
    has_keys = (data / "identity").exists()
    if has_keys and DataDirectory.inspect(data).identity.node_id == before.origin:
        raise CommandError(f"the log is that of {data} already")
    if not is_data_directory(data):
        HeldDirectory.open(data).close()
    heir = HeldDirectory.new_identity(data)
    heir.start_epoch(before.epoch + 1, "created")
    adopt(args.url, before, heir)
    print(f"the log of {before.origin} is now that of {heir.node_id}: serve it with --log")
    return 0


def run_copy(args: argparse.Namespace) -> int:
    """Copy the missing events to the target, then compare both logs byte for byte."""
    with ExitStack() as stack:
        source, identity = _source(args.source, Path(args.target), stack)
        target, begin, end = _target(args.target, identity, stack)
        try:
            check_start(source, target)
            begin()
            with progress_bar("copying", "event", quiet=args.quiet) as bar:
                position = copy_log(source, target, bar.show)
            with progress_bar("comparing", "event", quiet=args.quiet) as bar:
                compare_logs(source, target, bar.show)
            end()
        except CopyDiffers as fault:
            raise CommandError(f"the copy is not the original: {fault}") from fault
    print(f"copied and verified up to position {position}")
    return 0


def _source(address: str, target: Path, stack: ExitStack) -> tuple[WholeLog, Identity]:
    """The log to copy, and its node's identity. A copy acknowledges no writes, so a log in
    PostgreSQL needs no quorum."""
    if is_log_url(address):
        folder = target / "identity"
        _require_identity(folder)
        identity = Identity.inspect(folder)
        return stack.enter_context(log_shared(address, identity, SystemClock())), identity
    directory = DataDirectory.inspect(Path(address))
    directory.require_whole_log()
    log = log_inside(directory, SystemClock(), read_only=True)
    return stack.enter_context(log), directory.identity


def _require_identity(folder: Path) -> None:
    """Raises CommandError without one: a new directory would get its own, and be another node."""
    if not folder.is_dir():
        raise CommandError(
            f"{folder} does not hold the identity of the log's node: put it there with "
            f"'engramlog identity backup {folder}'"
        )


def _target(
    address: str, identity: Identity, stack: ExitStack
) -> tuple[WholeLog, Callable[[], None], Callable[[], None]]:
    """The log to copy to; what marks it as an incomplete copy, and what removes the mark. A log in
    PostgreSQL has the mark from the start, unless it was whole before."""
    if is_log_url(address):
        log = stack.enter_context(log_shared(address, identity, SystemClock(), copying=True))
        return log, lambda: None, lambda: log.end_copying(identity.epoch)
    _require_identity(Path(address) / "identity")
    directory = HeldDirectory.open(Path(address))
    stack.callback(directory.close)
    if directory.identity.node_id != identity.node_id:
        raise CommandError(f"{address} is the data directory of another node")
    log = stack.enter_context(log_inside(directory, SystemClock()))
    return log, directory.begin_copying, directory.end_copying
