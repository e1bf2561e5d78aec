"""Options that commands share: the directory or URL, and the key."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engramlog.api.client.client import Client
from engramlog.api.node.process.process_tuning import loading_modules
from engramlog.api.python.values import user_uri

if TYPE_CHECKING:  # only commands that read settings load it
    from engramlog.api.settings import Settings

KEY_VARIABLE = "STIGMEM_API_KEY"
URL_VARIABLE = "STIGMEM_URL"
USER_VARIABLE = "ABMIND_USER_ID"


class CommandError(Exception):
    """A command failed; the message is the one line to print."""


def named(given: str) -> str:
    """The type of an argument that, if empty, as of an unset variable, would mean everything."""
    if not given.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return given


def user_named(given: str) -> str:
    """``user_uri`` of an argument. Raises CommandError."""
    try:
        return user_uri(given)
    except ValueError as fault:
        raise CommandError(str(fault)) from fault


def data_directory(given: str) -> Path:
    return Path(named(given))


def add_data_arguments(parser: argparse.ArgumentParser, *, json: bool = False) -> None:
    """Adds ``--data`` and ``--config``; with ``json`` also ``--json``."""
    parser.add_argument(
        "--data",
        dest="data_dir",
        type=data_directory,
        metavar="DIR",
        help="data directory (default: STIGMEM_DATA_DIR, or engramlog-data)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML settings (default: DIR/engramlog.toml)"
    )
    if json:
        parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")


def add_target_arguments(parser: argparse.ArgumentParser, *, json: bool = False) -> None:
    """Adds ``--data`` or ``--url``, and the key for the latter; ``json`` as above."""
    add_data_arguments(parser, json=json)
    parser.add_argument(
        "--url", metavar="URL", help="a node to ask instead of a directory (default: STIGMEM_URL)"
    )
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        default=KEY_VARIABLE,
        help=f"environment variable that holds the API key for --url (default: {KEY_VARIABLE})",
    )


def add_moment_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--as-of``."""
    parser.add_argument(
        "--as-of",
        type=named,
        metavar="MOMENT",
        help="as known then: an instant, a date, position:N, or an HLC",
    )


def settings_of(args: argparse.Namespace, **flags: object) -> Settings:
    """The settings in force; warnings go to stderr. Raises SettingsError."""
    with loading_modules():
        from engramlog.api.settings_sources import load_settings

    given = {"data_dir": getattr(args, "data_dir", None), **flags}
    settings, warnings = load_settings(given, config=getattr(args, "config", None))
    warn(*warnings)
    return settings


def warn(*warnings: str) -> None:
    """Print warnings on stderr, each as a line."""
    for warning in warnings:
        print(f"engramlog: warning: {warning}", file=sys.stderr)


def url_of(args: argparse.Namespace) -> str | None:
    """The URL of the node, unless the command is for a directory."""
    if args.url is not None and args.data_dir is not None:
        raise CommandError("give either --data or --url, not both")
    if args.url is None and args.data_dir is None:
        return os.environ.get(URL_VARIABLE) or None
    url: str | None = args.url
    return url


def client_for_url(args: argparse.Namespace, url: str) -> Client:
    """A client with the key from the variable that ``--key-env`` names."""
    name: str = args.key_env
    return Client(url, os.environ.get(name) if name == KEY_VARIABLE else key_in(name))


def key_in(variable: str) -> str:
    """The key in an environment variable. Raises CommandError if it is not set."""
    if variable not in os.environ:
        raise CommandError(f"environment variable {variable} is not set")
    return os.environ[variable]


def add_user_argument(parser: argparse._ActionsContainer) -> None:  # pyright: ignore[reportPrivateUsage]  # a parser or a group of one
    """Adds ``--user-id``, the owner of the memories, and abmind's other name for it."""
    parser.add_argument(
        "--user-id", "--chat-id", metavar="USER", default=os.environ.get(USER_VARIABLE) or None,
        help=f"whose memories: those of user:USER (default: {USER_VARIABLE})",
    )  # fmt: skip
