"""``engramlog mcp``: the node's tools over the Model Context Protocol."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from engramlog.api.cli.arguments import (
    CommandError,
    add_target_arguments,
    client_for_url,
    settings_of,
    url_of,
)
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.node.process.process_tuning import loading_modules

if TYPE_CHECKING:
    from engramlog.api.client.client import Client

URL_DEFAULT = "http://127.0.0.1:8765"
PORT_DEFAULT = 8766
SOURCE_DEFAULT = "agent:mcp"
EXAMPLES = """\
An MCP client starts the first form by itself; see docs/mcp.md for its configuration.

examples:
  engramlog mcp --data memory                      (stdio; no other process is needed)
  engramlog mcp                                    (stdio, the node on http://127.0.0.1:8765)
  engramlog mcp --url http://memory.internal:8765 --key-env MEMORY_KEY
  engramlog mcp --transport http --port 8766       (http://127.0.0.1:8766/mcp)
"""
_BYTES_VARIABLE = "STIGMEM_MCP_MAX_ARGUMENT_BYTES"
_LIMIT_VARIABLE = "STIGMEM_POLL_LIMIT"
_SESSION_VARIABLE = "STIGMEM_SESSION_ID"


def register(commands: Subcommands) -> None:
    parser = commands.add("mcp", "offer a memory to MCP clients", run_mcp, EXAMPLES)
    add_target_arguments(parser)
    parser.add_argument(
        "--source",
        metavar="URI",
        help="default source of facts (default: the key's entity, or "
        f"{SOURCE_DEFAULT} with --data)",
    )
    parser.add_argument("--transport", choices=("stdio", "http"), default="stdio",
                        help="default: stdio")  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="for http (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=PORT_DEFAULT,
        help=f"for http, 0 for any free one (default: {PORT_DEFAULT})",
    )  # fmt: skip
    parser.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME",
        help="another name of this server over http; repeatable",
    )  # fmt: skip


def run_mcp(args: argparse.Namespace) -> int:
    """Serve until the client disconnects (stdio) or a signal comes (http)."""
    from engramlog.api.node.process.error_log import start_logging

    start_logging("warning", "text")
    url = url_of(args) or URL_DEFAULT
    if args.data_dir is None:
        client_for_url(args, url).close()  # reports faults now, not at the first call
        return _run(args, lambda: client_for_url(args, url), url, args.source)
    with loading_modules():
        from engramlog.api.cli.node.served_directory import ServedDirectory

    with ServedDirectory(settings_of(args)) as directory:
        directory.client().close()  # opens it now, to report faults early
        return _run(args, directory.client, str(args.data_dir), args.source or SOURCE_DEFAULT)


def _run(
    args: argparse.Namespace, client: Callable[[], Client], node: str, source: str | None
) -> int:
    # The SDK takes half a second to load; other commands skip it.
    from engramlog.api.mcp.server import NodeAccess, build_server
    from engramlog.api.mcp.transports import HttpAddress, serve_http, serve_stdio
    from engramlog.api.node.process.serving import is_loopback

    over_http = args.transport == "http"
    access = NodeAccess(
        client=client,
        session=os.environ.get(_SESSION_VARIABLE) or None,
        source=source,
        poll_limit=_number(_LIMIT_VARIABLE, 50, 500),
        argument_bytes_max=_number(_BYTES_VARIABLE, 1_000_000, 100_000_000),
        own_keys_only=over_http and not is_loopback(args.host),
    )
    server = build_server(access)
    if not over_http:
        serve_stdio(server)
        return 0
    address = HttpAddress(host=args.host, port=args.port, names=tuple(args.allowed_host))
    serve_http(
        server,
        address,
        lambda final: print(f"engramlog mcp serving {final.url} (node {node})", flush=True),
    )
    return 0


def _number(variable: str, default: int, most: int) -> int:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise CommandError(f"{variable} must be a whole number from 1 to {most}, not {text!r}")
    return int(text)
