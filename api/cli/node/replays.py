"""``engramlog replay``: rebuild the views, verify the log, export signed heads, show the status."""

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from engramlog.api.cli.arguments import add_data_arguments, settings_of
from engramlog.api.cli.opening import node_or_client, open_node
from engramlog.api.cli.progress import finished, progress_bar
from engramlog.api.cli.requests import Request
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import Client
from engramlog.api.node.log_place import open_log_to_read, require_own_log
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.directory import DataDirectory
from engramlog.eventlog.signing import SignedHeads, read_heads, write_heads
from engramlog.projections.moment import format_instant
from engramlog.replay.verify import Progress, VerifyReport, verify, verify_file

EXAMPLES = """\
examples:
  engramlog replay status --data memory
  engramlog rebuild --data memory                            (served or not)
  engramlog rebuild --data memory --from-scratch             (without a snapshot)
  engramlog replay heads --data memory --out heads.json      (keep it elsewhere)
  engramlog replay verify --data memory --against heads.json
"""


def register(commands: Subcommands) -> None:
    _add_rebuild(commands)
    group = commands.group("replay", "rebuild, verify and describe a log", EXAMPLES)
    status = Request("GET /v1/control/status", _show_status)
    parser = group.add("status", "position, projectors and digests", status)
    add_data_arguments(parser, json=True)
    _add_rebuild(group)
    parser = group.add("verify", "check every byte of the log", run_verify)
    add_data_arguments(parser)
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="signed heads kept elsewhere: shows a cut tail"
    )
    heads = Request("GET /v1/control/heads", _write_heads, fields=lambda _: {})
    parser = group.add("heads", "sign and export where the streams end", heads)
    add_data_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: stdout")


def _add_rebuild(commands: Subcommands) -> None:
    summary = "replay the log into fresh views and compare"
    parser = commands.add("rebuild", summary, run_rebuild, EXAMPLES)
    add_data_arguments(parser, json=True)
    parser.add_argument(
        "--from-scratch", action="store_true", help="from the first event, without a snapshot"
    )


def _show_status(_: argparse.Namespace, status: dict[str, Any]) -> None:
    at = format_instant(status["received_at_us"]) if status["received_at_us"] else "-"
    print(f"node       {status['node_id']} (epoch {status['epoch']})")
    print(f"position   {status['position']} (received {at})")
    print(f"state      {status['degraded'] or 'ready'}")
    for name, mark in status["projections"].items():
        halted = f", halted: {mark['halted']}" if mark["halted"] else ""
        made = f"version {mark['version']}, position {mark['position']}{halted}"
        print(f"projector  {name:<18} {made}")
    digests = status["digests"]
    print(f"digest     local  {digests['local']}")
    print(f"digest     shared {digests['shared']} (at position {digests['position']})")


def run_rebuild(args: argparse.Namespace) -> int:
    """Rebuild, through the running node if there is one."""
    settings = settings_of(args)
    with progress_bar("rebuild", "event") as bar:
        node = node_or_client(settings, lambda: open_node(settings, create=False))
        if isinstance(node, Client):
            client = node
            client.post("/v1/admin/rebuild", {"from_scratch": args.from_scratch})
            report = finished(
                lambda: client.get("/v1/admin/rebuild"), "the rebuild failed: ", bar, "events"
            )
        else:
            with closing(node):
                done = node.rebuild(bar.show, from_scratch=args.from_scratch)
                report = msgspec.to_builtins(done)
    if args.json:
        return print_json(report)
    for each in report["passed_over"]:
        print(f"skipped snapshot {each['position']}: {each['reason']}", file=sys.stderr)
    behind = f" behind the snapshot at {report['snapshot']}" if report["snapshot"] else ""
    compared = "not compared: those in use were damaged, or of another version"
    if report["compared"]:
        compared = "equal to the views in use"
    print(
        f"rebuilt {report['events']:,} events{behind} in {report['seconds']:.1f} s "
        f"at position {report['position']}; digest {report['digest'][:16]}…, {compared}"
    )
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Verify the log file, even during use. Exit code 1 if it is damaged."""
    settings = settings_of(args)
    directory = DataDirectory.inspect(settings.data_dir)
    against = None if args.against is None else read_heads(args.against)
    with progress_bar("verify", "event") as bar:
        report = _verified(directory, settings.log, against, bar.show)
    fault = report.fault
    if fault is not None:
        where = f"position {fault.position}: " if fault.position else ""
        print(f"engramlog: damaged log: {where}{fault.reason}", file=sys.stderr)
        return 1
    compared = "" if against is None else f", and agrees with the heads of {args.against}"
    print(f"verified {report.events:,} events in {report.streams} streams{compared}")
    return 0


def _verified(
    directory: DataDirectory, url: str, against: SignedHeads | None, show: Progress
) -> VerifyReport:
    if not url:
        require_own_log(directory)
        return verify_file(
            directory.log_path,
            origin=directory.identity.node_id,
            epoch=directory.identity.epoch,
            against=against,
            progress=show,
        )
    with closing(open_log_to_read(directory, SystemClock(), url)) as log:
        return verify(log, against=against, progress=show)


def _write_heads(args: argparse.Namespace, answer: dict[str, Any]) -> None:
    if args.out is None:
        print_json(answer)
        return
    heads = msgspec.convert(answer, SignedHeads)
    write_heads(args.out, heads)
    print(f"{len(heads.heads)} heads at position {heads.position}: {args.out}")
