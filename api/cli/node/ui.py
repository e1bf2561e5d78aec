"""``engramlog ui``: the console in a browser, on a running node or on its own."""

import argparse
import sys
import webbrowser
from contextlib import closing

from engramlog.api.cli.arguments import add_target_arguments, settings_of, url_of
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.node.process.control_file import running_node
from engramlog.api.node.process.process_tuning import loading_modules

EXAMPLES = """\
examples:
  engramlog ui                        the node of engramlog-data; started if none runs
  engramlog ui --data memory --no-browser
  engramlog ui --url http://127.0.0.1:8765
"""


def register(commands: Subcommands) -> None:
    parser = commands.add("ui", "open the console in a browser", run_ui, EXAMPLES)
    add_target_arguments(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run_ui(args: argparse.Namespace) -> int:
    """Open a running node's page, or serve one until Ctrl-C."""
    url = url_of(args)
    if url is None:
        running = running_node(settings_of(args).data_dir)
        if running is not None:
            url = running.url
            running.close()
    if url is not None:
        _show(url, open_it=not args.no_browser)
        return 0
    # Loaded here, because the page of a running node does not need it.
    with loading_modules():
        from engramlog.api.cli.opening import open_node
        from engramlog.api.node.process.error_log import start_logging
        from engramlog.api.node.process.serving import run

    start_logging("warning", "text")
    # No keys: only this machine has access, and the user who starts it can read the files too.
    settings = settings_of(args, auth_required=False, host="127.0.0.1")
    with closing(open_node(settings, embedding=settings.embedding)) as node:
        run(node, settings, lambda final: _serve(final.public_url, open_it=not args.no_browser))
    return 0


def _serve(url: str, *, open_it: bool) -> None:
    print("engramlog: serving the console; Ctrl-C stops", file=sys.stderr)
    _show(url, open_it=open_it)


def _show(url: str, *, open_it: bool) -> None:
    page = f"{url.rstrip('/')}/ui"
    print(page, flush=True)
    if open_it:
        webbrowser.open(page)
