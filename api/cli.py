"""The ``engramlog`` command.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures are one line on
stderr; ``--traceback`` shows where an unexpected one came from.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from api.client import ClientError
from api.console import (
    ask,
    audit,
    backups,
    capabilities,
    consolidation,
    content,
    decay,
    demo,
    doctor,
    embeddings,
    episodes,
    erasing,
    identity,
    keys,
    mcp,
    names,
    peers,
    promote,
    receipts,
    replays,
    serve,
    snapshots,
    summaries,
    tombstones,
    transfer,
)
from api.console.reach import CommandError
from api.console.subcommands import Subcommands
from api.importing import ImportStopped, SinkError
from api.lines import LineError
from api.mapping import MappingError
from api.node import LogNotEmpty, NotAReplica
from api.replicating import ReplicaError
from api.serving import ServingError
from api.settings import SettingsError
from eventlog.errors import EventLogError
from projections.embedding.errors import EmbeddingError
from projections.writer import ReplicaReadOnly
from replay.rebuild import DigestMismatch

GROUPS = (
    serve, transfer, ask, receipts, audit, replays, embeddings, decay, content, episodes,
    consolidation, backups, snapshots, keys, capabilities, names, peers, identity, promote,
    doctor, mcp, erasing, tombstones, summaries, demo,
)  # fmt: skip
EXPECTED = (
    ClientError,
    CommandError,
    DigestMismatch,
    EmbeddingError,
    EventLogError,
    ImportStopped,
    LineError,
    LogNotEmpty,
    MappingError,
    NotAReplica,
    OSError,
    ReplicaError,
    ReplicaReadOnly,
    ServingError,
    SettingsError,
    SinkError,
)
"""Failures whose message is all the user needs."""
EXIT_INTERRUPTED = 130
EPILOG = """\
first steps:
  engramlog demo                      a node with 68 years of space flight in it
  engramlog serve --data memory       a node of your own
  engramlog COMMAND --help            what a command takes, with examples
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="engramlog",
        description="A memory node for AI agents whose only truth is an append-only event log.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"engramlog {_version()}")
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    commands = Subcommands(parser)
    for group in GROUPS:
        group.register(commands)
    return parser


def _version() -> str:
    try:
        return version("engramlog")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "(source tree)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as ``head`` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except EXPECTED as fault:
        if args.traceback:
            raise
        print(f"engramlog: {one_line(fault)}", file=sys.stderr)
        return 1
    except Exception as fault:
        if args.traceback:
            raise
        kind = type(fault).__name__
        print(
            f"engramlog: unexpected {kind}: {one_line(fault)} "
            "(run again with 'engramlog --traceback …' to see where)",
            file=sys.stderr,
        )
        return 1
    return code


def one_line(fault: Exception) -> str:
    """An error's message without line breaks."""
    return " ".join(str(fault).split()) or type(fault).__name__


if __name__ == "__main__":
    sys.exit(main())
