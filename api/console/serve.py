"""``engramlog serve``: run a node."""

from __future__ import annotations

import argparse
import sys

from api.console.reach import add_data_arguments, open_node, settings_of
from api.console.subcommands import Subcommands
from api.serving import check_exposure, run, start_logging
from api.settings import Settings

EXAMPLES = """\
examples:
  engramlog serve --data memory
  engramlog serve --data memory --host 0.0.0.0 --port 9000     (keys are required)
  engramlog serve --data memory --no-auth                      (this machine only)
"""


def register(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add("serve", "run a node on a data directory", EXAMPLES, run_serve)
    add_data_arguments(parser)
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
        "--log-level", choices=("debug", "info", "warning", "error"), help="default: info"
    )
    parser.add_argument(
        "--access-log", action="store_const", const=True, help="log each request to stderr"
    )


def run_serve(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    names = ("host", "port", "node_url", "auth_required", "log_level", "access_log")
    settings = settings_of(args, **{name: getattr(args, name) for name in names})
    check_exposure(settings)
    start_logging(settings.log_level)
    node = open_node(settings, embedding=settings.embedding)
    try:
        run(node, settings, lambda final: _announce(final, node.log.head().position))
    finally:
        node.close()
    return 0


def _announce(settings: Settings, position: int) -> None:
    url = settings.model_copy(update={"node_url": ""}).public_url
    print(f"engramlog serving {url} (data {settings.data_dir}, position {position})", flush=True)
    if settings.access_log:
        sys.stderr.flush()
