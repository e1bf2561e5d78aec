"""The ``engramlog`` command.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Failures are one line on
stderr; ``--traceback`` shows where an unexpected one came from.
"""

import argparse
import codecs
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from engramlog.api.node.process.process_tuning import loading_modules
from engramlog.projections.library_threads import NO_THREAD, THREADS_OF_LIBRARIES

COMMANDS: dict[str, dict[str, str]] = {
    "node.serve": {"serve": "run a node on a data directory"},
    "memories.verbs": {
        "remember": "store a text",
        "assert": "state one fact",
        "retract": "end a fact",
    },
    "questions.entity": {
        "show": "show the facts of an entity",
        "history": "list the changes of an entity's facts",
    },
    "node.ui": {"ui": "open the console in a browser"},
    "memories.transfer": {
        "import": "write facts from a JSONL, CSV or Markdown file",
        "export": "write a log as JSONL",
    },
    "questions.ask": {
        "recall": "find the facts that answer a question best",
        "facts": "list facts",
    },
    "questions.receipts": {"receipts": "list recalls and their answers"},
    "memories.memory": {"memory": "store memories as abmind does"},
    "questions.profiles": {"profile": "show and install recall profiles"},
    "questions.hook": {"hook": "recall for an agent's host, at every turn"},
    "questions.audit": {"audit": "show past states, changes and their authors"},
    "node.replays": {
        "rebuild": "replay the log into fresh views and compare",
        "replay": "rebuild, verify and describe a log",
    },
    "node.embeddings": {"embeddings": "show or change the embedding model"},
    "memories.decay": {"decay": "lower the confidence of old facts"},
    "memories.content": {"content": "review facts that the sanitizer flagged"},
    "memories.episodes": {"episodes": "record episodes, list them and their facts"},
    "memories.consolidation": {"consolidation": "make facts from episodes by rules"},
    "node.backups": {
        "backup": "copy log, tables, vectors and keys to a new folder",
        "restore": "make a data directory from a backup",
    },
    "node.snapshots": {"snapshot": "copy the views, for fast rebuilds"},
    "rights.keys": {"key": "create, list and revoke API keys"},
    "rights.capabilities": {"capability": "issue, narrow and revoke capability tokens"},
    "questions.names": {"names": "give entities other names, and resolve names"},
    "node.peers": {"peer": "manage peers"},
    "rights.identity": {"identity": "the node's signing key"},
    "node.promote": {"promote": "turn a replica into a primary"},
    "node.shared_logs": {
        "log": "prepare a log in PostgreSQL, or adopt one",
        "copy-log": "copy a log to PostgreSQL or back, and verify it",
    },
    "node.doctor": {"doctor": "check a node", "tasks": "list background tasks"},
    "node.mcp": {"mcp": "offer a memory to MCP clients"},
    "memories.erasing": {
        "erase": "erase facts for good",
        "hold": "forbid erasing a fact or entity",
    },
    "memories.tombstones": {"tombstone": "hide an entity from every answer"},
    "memories.summaries": {"summaries": "import Markdown summaries, and list them"},
    "node.demo": {"demo": "serve 68 years of space flight and ask about them"},
    "completion": {"completion": "print completions for a shell"},
}
"""The commands of each module below ``engramlog.api.cli``, with their help. A run loads only
the requested module; the list of all commands needs none."""
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
    """The whole command line, the commands of some modules, or of none their list alone."""
    # Loaded here, where Ctrl-C ends without a traceback.
    from engramlog.api.cli.subcommands import Subcommands

    parser = _Parser(
        prog="engramlog",
        description="A memory for AI agents, over an append-only event log.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        default=argparse.SUPPRESS,
        help="show program's version number and exit",
    )
    parser.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    commands = Subcommands(parser)
    for name in modules:
        import_module(f"engramlog.api.cli.{name}").register(commands)
    if not modules:
        for made in COMMANDS.values():
            for command, summary in made.items():
                commands.add(command, summary)
    return parser


def _command_of(given: Sequence[str]) -> str | None:
    return next((each for each in given if not each.startswith("-")), None)


def unknown_command(given: Sequence[str]) -> str | None:
    """The error message if the first word is not a command, else None."""
    command = _command_of(given)
    known = [name for made in COMMANDS.values() for name in made]
    if command is None or command in known:
        return None
    from difflib import get_close_matches

    close = get_close_matches(command, known, 1)
    meant = f"did you mean {close[0]!r}?" if close else "engramlog --help lists the commands"
    return f"no command {command!r}; {meant}"


class _Parser(argparse.ArgumentParser):
    """Says what to do with words that no argument takes."""

    def error(self, message: str) -> NoReturn:
        words = message.removeprefix("unrecognized arguments: ")
        if words != message and not words.startswith("-"):
            message += " (a text of several words needs quotes)"
        super().error(message)


class _Version(argparse.Action):
    """Looks the version up when it is asked for: this loads a parser of e-mails."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from engramlog.api.release import release

        print(f"engramlog {release()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = sys.argv[1:] if argv is None else argv
    meant = unknown_command(given)
    if meant is not None:
        print(f"engramlog: {meant}", file=sys.stderr)
        return 2
    # Without a command, none: its list needs no module.
    needed = [name for name, made in COMMANDS.items() if _command_of(given) in made]
    return execute(lambda: build_parser(needed), given)


def execute(
    parser: Callable[[], argparse.ArgumentParser], given: Sequence[str], program: str = "engramlog"
) -> int:
    """Run the command of a command line; returns the exit code. ``parser`` makes the parser."""
    _open_missing_streams()
    for name in THREADS_OF_LIBRARIES:
        os.environ.setdefault(name, "1")
    codecs.register_error("as JSON", _as_json)
    stdout: object = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        stdout.reconfigure(errors="as JSON")
    try:  # also while loading a command's modules, which takes a moment
        with loading_modules():
            args = parser().parse_args(given)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has ended, as ``head`` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as stop:
        if stop.args:
            print(f"{program}: {stop}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as fault:
        if args.traceback:
            raise
        if is_explained(fault):
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


def _open_missing_streams() -> None:
    """A supervisor may start us without input, output or errors. Files would get their numbers."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w"))


def _as_json(fault: UnicodeError) -> tuple[str, int]:
    """Characters that the terminal's encoding lacks, as JSON and people write them."""
    import json

    if not isinstance(fault, UnicodeEncodeError):
        raise fault
    return json.dumps(fault.object[fault.start : fault.end])[1:-1], fault.end


def is_explained(fault: Exception) -> bool:
    """Whether its message is all that the user needs: our own errors are written for people."""
    ours = type(fault).__module__.startswith("engramlog.")
    return ours or isinstance(fault, OSError) or str(fault) == NO_THREAD


def _remedy(fault: Exception, args: argparse.Namespace) -> str:
    """The next step: how to supply a key that a node required (the command knows its options; the
    client, which peers and replicas use too, does not), what brings a damaged log back, or which
    limit to raise."""
    from engramlog.eventlog.errors import CorruptLog

    if isinstance(fault, CorruptLog):
        return " (stored bytes changed: restore a backup, see 'engramlog restore --help')"
    if str(fault) == NO_THREAD:
        return " (the limit is that of ulimit -u, TasksMax in systemd, or the container's pids)"
    refused = getattr(fault, "status", 0) == UNAUTHORIZED
    return " (give a key with --key-env NAME)" if refused and "key_env" in args else ""


def one_line(fault: Exception) -> str:
    """An error's message without line breaks and without an error number."""
    if isinstance(fault, OSError) and fault.strerror and isinstance(fault.filename, str):
        return f"{fault.filename}: {fault.strerror}"
    return " ".join(str(fault).split()) or type(fault).__name__


if __name__ == "__main__":
    sys.exit(main())
