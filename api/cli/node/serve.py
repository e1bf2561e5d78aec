"""``engramlog serve``: run a node."""

import argparse
import logging
import os
import sys
from contextlib import closing

from engramlog.api.cli.arguments import CommandError, add_data_arguments, key_in, settings_of
from engramlog.api.cli.opening import open_node
from engramlog.api.cli.progress import progress_bar
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.node.process.error_log import start_logging
from engramlog.api.node.process.serving import check_exposure, listen, run
from engramlog.api.node.replicating import prepare, source_of
from engramlog.api.settings import Settings
from engramlog.replay.replication.state import load_state

_log = logging.getLogger(__name__)

EXAMPLES = """\
examples:
  engramlog serve --data memory
  engramlog serve --data memory --host 0.0.0.0 --port 9000     (keys are required)
  engramlog serve --data memory --no-auth                      (this machine only)
  engramlog serve --data copy --replica-of http://10.0.0.5:8765    (a read-only replica)
  engramlog serve --data views --log postgresql://node@db/engram   (a log in PostgreSQL)
"""

FLAGS = (
    "log", "scopes", "host", "port", "node_url", "auth_required", "log_level", "log_format",
    "access_log", "replica_of",
)  # fmt: skip


def register(commands: Subcommands) -> None:
    parser = commands.add("serve", "run a node on a data directory", run_serve, EXAMPLES)
    add_data_arguments(parser)
    parser.add_argument(
        "--log",
        metavar="URL",
        help="a log in PostgreSQL, which other nodes may share, instead of one in the directory",
    )
    parser.add_argument(
        "--scopes",
        metavar="NAMES",
        help="hold only these scopes of a log in PostgreSQL, such as team,company; '*': all",
    )
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port, 0 for any free one (default: 8765)")
    parser.add_argument("--node-url", metavar="URL", help="URL under which others reach the node")
    parser.add_argument(
        "--no-auth",
        dest="auth_required",
        action="store_const",
        const=False,
        help="answer without keys; only on a loopback address",
    )
    parser.add_argument(
        "--replica-of",
        metavar="URL",
        help="be a read-only replica of that node; needs a key with permission replicate",
    )
    parser.add_argument(
        "--replica-key-env",
        metavar="NAME",
        help="environment variable with the primary's key (default: STIGMEM_REPLICA_KEY)",
    )
    parser.add_argument(
        "--accept-rollback",
        action="store_true",
        help="continue in a new epoch, although the log lost events that the tables had",
    )
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="default: info"
    )
    parser.add_argument(
        "--log-format", choices=("auto", "text", "json"), help="default: text on a terminal"
    )
    parser.add_argument(
        "--access-log", action="store_const", const=True, help="log each request to stderr"
    )


def run_serve(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    variable: str | None = args.replica_key_env
    settings = settings_of(
        args,
        **{name: getattr(args, name) for name in FLAGS},
        replica_key=None if variable is None else key_in(variable),
    )
    check_exposure(settings)
    start_logging(settings.log_level, settings.log_format)
    if settings.port:  # a busy port then leaves no directory behind
        listen(settings.host, settings.port).close()
    _check_role(settings)
    if settings.replica_of:
        with progress_bar("copying", "event") as bar, progress_bar("snapshot", "B") as second:
            prepare(
                settings.data_dir,
                settings.replica_of,
                settings.replica_key,
                bar.show,
                second.show if settings.replica_snapshot else None,
            )
    node = open_node(settings, embedding=settings.embedding, accept_rollback=args.accept_rollback)
    with closing(node):
        if settings.replica_of:
            node.follow(source_of(settings.replica_of, settings.replica_key))
        run(node, settings, lambda final: _announce(final, node.log.head().position))
    return 0


def _check_role(settings: Settings) -> None:
    """Ensure that a forgotten flag does not turn a replica into a primary."""
    state = load_state(settings.data_dir)
    if state is not None and not settings.replica_of:
        raise CommandError(
            f"{settings.data_dir} is a replica of {state.primary_url}: serve it with "
            f"--replica-of, or promote it with 'engramlog promote'"
        )


def _announce(settings: Settings, position: int) -> None:
    url = settings.model_copy(update={"node_url": ""}).public_url
    try:
        print(
            f"engramlog serving {url} (data {settings.data_dir}, position {position})", flush=True
        )
    except OSError as fault:  # its file is on a full disk, or its reader is gone
        _log.warning("cannot write to stdout: %s", fault.strerror)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
