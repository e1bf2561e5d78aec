"""``engramlog demo``: a node with real history, and a few questions to it."""

import argparse

from engramlog.api.console.arguments import data_directory
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.demo import run_demo

EXAMPLES = """\
examples:
  engramlog demo                 load, ask, print, and keep serving until Ctrl-C
  engramlog demo --once          the same, then stop
  engramlog demo --port 9000 --data demo-memory
"""


def register(commands: Subcommands) -> None:
    parser = commands.add(
        "demo", "serve 68 years of space flight and ask about them", run, EXAMPLES
    )
    parser.add_argument("--once", action="store_true", help="stop after printing")
    parser.add_argument("--port", type=int, default=8765, help="default: 8765")
    parser.add_argument(
        "--data",
        dest="data_dir",
        type=data_directory,
        metavar="DIR",
        help="default: a temporary directory",
    )


def run(args: argparse.Namespace) -> int:
    return run_demo(port=args.port, once=args.once, data=args.data_dir)
