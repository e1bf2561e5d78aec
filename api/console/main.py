"""The ``engramlog`` command.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures are one line on
stderr; ``--traceback`` shows where an unexpected one came from.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from engramlog.api.client.client import ClientError
from engramlog.api.console.arguments import CommandError
from engramlog.api.console.subcommands import Subcommands
from engramlog.projections.library_threads import THREADS_OF_LIBRARIES

COMMANDS: dict[str, tuple[str, ...]] = {
    "node.serve": ("serve",),
    "memories.verbs": ("remember", "assert", "retract"),
    "questions.entity": ("show", "history"),
    "node.ui": ("ui",),
    "memories.transfer": ("import", "export"),
    "questions.ask": ("recall", "facts"),
    "questions.receipts": ("receipts",),
    "memories.memory": ("memory",),
    "questions.profiles": ("profile",),
    "questions.hook": ("hook",),
    "questions.audit": ("audit",),
    "node.replays": ("rebuild", "replay"),
    "node.embeddings": ("embeddings",),
    "memories.decay": ("decay",),
    "memories.content": ("content",),
    "memories.episodes": ("episodes",),
    "memories.consolidation": ("consolidation",),
    "node.backups": ("backup", "restore"),
    "node.snapshots": ("snapshot",),
    "rights.keys": ("key",),
    "rights.capabilities": ("capability",),
    "questions.names": ("names",),
    "node.peers": ("peer",),
    "rights.identity": ("identity",),
    "node.promote": ("promote",),
    "node.shared_logs": ("log", "copy-log"),
    "node.doctor": ("doctor", "tasks"),
    "node.mcp": ("mcp",),
    "memories.erasing": ("erase", "hold"),
    "memories.tombstones": ("tombstone",),
    "memories.summaries": ("summaries",),
    "node.demo": ("demo",),
    "completion": ("completion",),
}
"""The commands of each module below ``engramlog.api.console``. A run loads only the requested
one."""
UNAUTHORIZED = 401
EXIT_INTERRUPTED = 130
EPILOG = """\
first steps:
  engramlog remember "Ann moved to Graz"
  engramlog recall "where does Ann live?"
  engramlog ui                        the same in a browser
  engramlog demo                      a node with 68 years of space flight in it
  engramlog serve --data memory       a node of your own
  engramlog COMMAND --help            what a command takes, with examples
"""


def build_parser(modules: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The whole command line, or the commands of some modules."""
    parser = argparse.ArgumentParser(
        prog="engramlog",
        description="A memory for AI agents, over an append-only event log.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"engramlog {_version()}")
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    commands = Subcommands(parser)
    for name in modules:
        import_module(f"engramlog.api.console.{name}").register(commands)
    return parser


def _needed(given: Sequence[str]) -> Sequence[str]:
    """The modules that these arguments need: all if they name no command."""
    command = next((each for each in given if not each.startswith("-")), None)
    if command is None and "--version" in given:
        return ()
    return [name for name, made in COMMANDS.items() if command in made] or tuple(COMMANDS)


def unknown_command(given: Sequence[str]) -> str | None:
    """The error message if the first word is not a command, else None."""
    command = next((each for each in given if not each.startswith("-")), None)
    known = [name for made in COMMANDS.values() for name in made]
    if command is None or command in known:
        return None
    from difflib import get_close_matches

    close = get_close_matches(command, known, 1)
    meant = f"did you mean {close[0]!r}?" if close else "engramlog --help lists the commands"
    return f"no command {command!r}; {meant}"


def expected() -> tuple[type[Exception], ...]:
    """Failures whose message is all the user needs. A failure's own module is loaded already, so
    these imports run only on failure."""
    from engramlog.api.node.node import LogNotEmpty, NotAReplica
    from engramlog.api.node.process.serving import ServingError
    from engramlog.api.node.replicating import ReplicaError
    from engramlog.api.settings_sources import SettingsError
    from engramlog.api.transfer.importing import ImportStopped, SinkError
    from engramlog.api.transfer.lines.line_kinds import LineError
    from engramlog.api.transfer.mapping import MappingError
    from engramlog.eventlog.errors import EventLogError
    from engramlog.projections.embedding.errors import EmbeddingError
    from engramlog.projections.writing.writer_errors import ReplicaReadOnly
    from engramlog.replay.rebuild import DigestMismatch

    return (
        DigestMismatch, EmbeddingError, EventLogError, ImportStopped, LineError, LogNotEmpty,
        MappingError, NotAReplica, OSError, ReplicaError, ReplicaReadOnly, ServingError,
        SettingsError, SinkError,
    )  # fmt: skip


def _version() -> str:
    try:
        return version("engramlog")
    except PackageNotFoundError:  # run from a source tree without installation
        return "(source tree)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = sys.argv[1:] if argv is None else argv
    meant = unknown_command(given)
    if meant is not None:
        print(f"engramlog: {meant}", file=sys.stderr)
        return 2
    return execute(lambda: build_parser(_needed(given)), given)


def execute(
    parser: Callable[[], argparse.ArgumentParser], given: Sequence[str], program: str = "engramlog"
) -> int:
    """Run the command of a command line; returns the exit code. ``parser`` makes the parser."""
    for name in THREADS_OF_LIBRARIES:
        os.environ.setdefault(name, "1")
    try:  # also while loading a command's modules, which takes a moment
        args = parser().parse_args(given)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has ended, as ``head`` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as fault:
        if args.traceback:
            raise
        known = isinstance(fault, (ClientError, CommandError))
        if known or isinstance(fault, expected()):
            print(f"{program}: {one_line(fault)}{_remedy(fault, args)}", file=sys.stderr)
            return 1
        kind = type(fault).__name__
        print(
            f"{program}: unexpected {kind}: {one_line(fault)} "
            f"(run again with '{program} --traceback …' to see where)",
            file=sys.stderr,
        )
        return 1
    return code


def _remedy(fault: Exception, args: argparse.Namespace) -> str:
    """How to supply a key that a node required. The command knows its options; the client, which
    peers and replicas use too, does not."""
    refused = isinstance(fault, ClientError) and fault.status == UNAUTHORIZED
    return " (give a key with --key-env NAME)" if refused and "key_env" in args else ""


def one_line(fault: Exception) -> str:
    """An error's message without line breaks and without an error number."""
    if isinstance(fault, OSError) and fault.strerror and isinstance(fault.filename, str):
        return f"{fault.filename}: {fault.strerror}"
    return " ".join(str(fault).split()) or type(fault).__name__


if __name__ == "__main__":
    sys.exit(main())
