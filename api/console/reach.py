"""How a command reaches a node: by URL, through the running node of a directory, or by
opening the directory itself. Either way it asks over HTTP, so there is one way to ask."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from api.client import Client, ClientError
from api.control_file import read_control

if TYPE_CHECKING:  # what only some commands need is loaded by them
    from tqdm import tqdm

    from api.settings import Settings

KEY_VARIABLE = "STIGMEM_API_KEY"
URL_VARIABLE = "STIGMEM_URL"


Embedding = Literal["off", "pinned", "begun"]


class CommandError(Exception):
    """A command failed; the message is the one line the user sees."""


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """``--data`` and ``--config``."""
    parser.add_argument(
        "--data",
        dest="data_dir",
        type=Path,
        metavar="DIR",
        help="data directory (default: STIGMEM_DATA_DIR, or engramlog-data)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML settings (default: DIR/engramlog.toml)"
    )


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """``--data`` or ``--url``, and the key for the latter."""
    add_data_arguments(parser)
    parser.add_argument(
        "--url", metavar="URL", help="a node to ask instead of a directory (default: STIGMEM_URL)"
    )
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        default=KEY_VARIABLE,
        help=f"environment variable that holds the API key for --url (default: {KEY_VARIABLE})",
    )


def settings_of(args: argparse.Namespace, **flags: object) -> Settings:
    """The settings in force; warnings go to stderr. Raises SettingsError."""
    from api.settings import load_settings

    given = {"data_dir": getattr(args, "data_dir", None), **flags}
    settings, warnings = load_settings(given, config=getattr(args, "config", None))
    for warning in warnings:
        print(f"engramlog: warning: {warning}", file=sys.stderr)
    return settings


def url_of(args: argparse.Namespace) -> str | None:
    """The URL to ask, if the command is not about a directory."""
    if args.url is not None and args.data_dir is not None:
        raise CommandError("give either --data or --url, not both")
    if args.url is None and args.data_dir is None:
        return os.environ.get(URL_VARIABLE) or None
    url: str | None = args.url
    return url


def client_for_url(args: argparse.Namespace, url: str) -> Client:
    """A client with the key of the variable that ``--key-env`` names."""
    key = os.environ.get(args.key_env)
    if key is None and args.key_env != KEY_VARIABLE:
        raise CommandError(f"environment variable {args.key_env} is not set")
    return Client(url, key)


def running_node(settings: Settings) -> Client | None:
    """A client of the node that holds the directory; None where nobody answers."""
    control = read_control(settings.data_dir)
    if control is None:
        return None
    client = Client(control.url, control.token)
    try:
        client.get("/v1/control/ping")
    except ClientError:
        client.close()
        return None
    return client


@contextmanager
def reach(
    args: argparse.Namespace, *, create: bool = False, embedding: Embedding = "off"
) -> Generator[Client]:
    """A client for the length of a ``with`` block.

    Args:
        create: make the directory where there is none.
        embedding: whether a directory is opened with its embeddings: ``pinned`` where serving
            it has begun any, ``begun`` in any case.

    Raises:
        CommandError: the directory is held by a process that does not answer.
    """
    url = url_of(args)
    if url is not None:
        client = client_for_url(args, url)
        yield client
        client.close()
        return
    settings = settings_of(args)
    running = running_node(settings)
    if running is not None:
        yield running
        running.close()
        return
    from api.console.opening import opened

    with opened(settings, create=create, embedding=embedding) as client:
        yield client


class Bar:
    """A progress bar on stderr that shows (done, total) pairs."""

    def __init__(self, title: str, unit: str, quiet: bool) -> None:
        self._hidden = quiet or not sys.stderr.isatty()
        self._title = title
        self._unit = unit
        self._bar: tqdm[NoReturn] | None = None

    def show(self, done: int, total: int) -> None:
        """Show how far it is."""
        if self._hidden:
            return
        bar = self._bar
        if bar is None:
            from tqdm import tqdm

            bar = self._bar = tqdm(
                total=total, desc=self._title, unit=self._unit, unit_scale=True, leave=False
            )
        bar.total = total
        bar.update(done - bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress_bar(title: str, unit: str, *, quiet: bool = False) -> Generator[Bar]:
    """A bar for the length of a ``with`` block; nothing where stderr is not a terminal."""
    bar = Bar(title, unit, quiet)
    try:
        yield bar
    finally:
        bar.close()
