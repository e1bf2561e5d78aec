"""How a command reaches a node: by URL, through the running node of a directory, or by
opening the directory itself. Either way it asks over HTTP, so there is one way to ask."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NoReturn

from tqdm import tqdm

from api.client import Client, ClientError
from api.heap import settle_heap
from api.node import Node
from api.serving import read_control, serve_in_background
from api.settings import Settings, load_settings
from api.turns import take_short_turns
from eventlog.clock import Clock
from eventlog.errors import DirectoryLocked
from projections.embedding.choosing import EmbeddingSettings, follow_pin

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


def open_node(
    settings: Settings,
    *,
    clock: Clock | None = None,
    from_file: bool = False,
    create: bool = True,
    embedding: EmbeddingSettings | None = None,
) -> Node:
    """Open the data directory, with a progress bar while it catches up.

    Args:
        embedding: how facts are embedded, for commands that recall or serve.

    Raises:
        CommandError: it does not exist and ``create`` is not given.
        DirectoryLocked and the other errors of ``Node.open``.
    """
    path = settings.data_dir
    if not create and not path.is_dir():
        raise CommandError(f"{path} is not a data directory; name one with --data")
    with progress_bar("catching up", "event") as progress:
        node = Node.open(
            path,
            clock=clock,
            set_valued=settings.set_valued_relations,
            epoch_clock="file" if from_file else "wall",
            embedding=embedding,
            progress=progress.show,
        )
    settle_heap()
    take_short_turns()
    return node


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
    try:
        node = open_node(settings, create=create)
    except DirectoryLocked as fault:
        running = running_node(settings)
        if running is None:
            raise CommandError(f"{fault}, which does not answer commands") from fault
        yield running
        running.close()
        return
    try:
        if embedding == "begun" or (embedding == "pinned" and node.pinned_space() is not None):
            node.embed(follow_pin(settings.embedding, node.pinned_space()))
        quiet = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
        with serve_in_background(node, quiet) as control:
            client = Client(control.url, control.token)
            yield client
            client.close()
    finally:
        node.close()


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
