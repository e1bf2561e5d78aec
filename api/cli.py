"""The ``engramlog`` command.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures are one line on
stderr; ``--traceback`` shows where an unexpected one came from.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from api.client import ClientError
from api.console.reach import CommandError
from api.console.subcommands import Subcommands

COMMANDS: dict[str, tuple[str, ...]] = {
    "serve": ("serve",),
    "transfer": ("import", "export"),
    "ask": ("recall", "facts"),
    "receipts": ("receipts",),
    "memory": ("memory",),
    "profiles": ("profile",),
    "hook": ("hook",),
    "audit": ("audit",),
    "replays": ("rebuild", "replay"),
    "embeddings": ("embeddings",),
    "decay": ("decay",),
    "content": ("content",),
    "episodes": ("episodes",),
    "consolidation": ("consolidation",),
    "backups": ("backup", "restore"),
    "snapshots": ("snapshot",),
    "keys": ("key",),
    "capabilities": ("capability",),
    "names": ("names",),
    "peers": ("peer",),
    "identity": ("identity",),
    "promote": ("promote",),
    "doctor": ("doctor",),
    "mcp": ("mcp",),
    "erasing": ("erase", "hold"),
    "tombstones": ("tombstone",),
    "summaries": ("summaries",),
    "demo": ("demo",),
}
"""The commands of each module of ``api.console``: only the one that is asked for is loaded."""
UNAUTHORIZED = 401
EXIT_INTERRUPTED = 130
EPILOG = """\
first steps:
  engramlog demo                      a node with 68 years of space flight in it
  engramlog serve --data memory       a node of your own
  engramlog COMMAND --help            what a command takes, with examples
"""


def build_parser(modules: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The whole command line, or the commands of some modules."""
    parser = argparse.ArgumentParser(
        prog="engramlog",
        description="A memory node for AI agents whose only truth is an append-only event log.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"engramlog {_version()}")
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    commands = Subcommands(parser)
    for name in modules:
        import_module(f"api.console.{name}").register(commands)
    return parser


def _needed(given: Sequence[str]) -> Sequence[str]:
    """The modules that these arguments are about: all of them where no command is named."""
    command = next((each for each in given if not each.startswith("-")), None)
    if command is None and "--version" in given:
        return ()
    return [name for name, made in COMMANDS.items() if command in made] or tuple(COMMANDS)


def expected() -> tuple[type[Exception], ...]:
    """Failures whose message is all the user needs. Whatever raised one has loaded it, so
    this is asked only of a failure."""
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

    return (
        DigestMismatch, EmbeddingError, EventLogError, ImportStopped, LineError, LogNotEmpty,
        MappingError, NotAReplica, OSError, ReplicaError, ReplicaReadOnly, ServingError,
        SettingsError, SinkError,
    )  # fmt: skip


def _version() -> str:
    try:
        return version("engramlog")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "(source tree)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = sys.argv[1:] if argv is None else argv
    try:  # also while a command's modules load, which takes a moment
        args = build_parser(_needed(given)).parse_args(given)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as ``head`` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as fault:
        if args.traceback:
            raise
        known = isinstance(fault, (ClientError, CommandError))
        if known or isinstance(fault, expected()):
            print(f"engramlog: {one_line(fault)}{_remedy(fault, args)}", file=sys.stderr)
            return 1
        kind = type(fault).__name__
        print(
            f"engramlog: unexpected {kind}: {one_line(fault)} "
            "(run again with 'engramlog --traceback …' to see where)",
            file=sys.stderr,
        )
        return 1
    return code


def _remedy(fault: Exception, args: argparse.Namespace) -> str:
    """How to give the key that a node missed. Only a command knows what takes it, not the
    client, which peers and replicas use as well."""
    refused = isinstance(fault, ClientError) and fault.status == UNAUTHORIZED
    return " (give a key with --key-env NAME)" if refused and "key_env" in args else ""


def one_line(fault: Exception) -> str:
    """An error's message without line breaks, and without the number of a file's error."""
    if isinstance(fault, OSError) and fault.strerror and isinstance(fault.filename, str):
        return f"{fault.filename}: {fault.strerror}"
    return " ".join(str(fault).split()) or type(fault).__name__


if __name__ == "__main__":
    sys.exit(main())
