"""How a command reaches a node: by URL, through the running node of a directory, or by opening the
directory. In each case it uses HTTP."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from engramlog.api.cli.arguments import client_for_url, settings_of, url_of
from engramlog.api.client.client import Client
from engramlog.api.node.process.control_file import running_node
from engramlog.api.node.process.process_tuning import loading_modules
from engramlog.eventlog.directory import is_data_directory

if TYPE_CHECKING:  # only commands that open a directory load it
    from engramlog.api.cli.opening import Embedding


@contextmanager
def reach(
    args: argparse.Namespace,
    *,
    create: bool = False,
    embedding: Embedding = "off",
    wait_seconds: float | None = None,
) -> Generator[Client]:
    """A client within a ``with`` block. A command without ``--url`` is for a directory.

    Args: create: create the directory if it does not exist.
        embedding: whether to open a directory with its embeddings: ``pinned``: if serving has
            pinned a model; ``loaded``: the same, with its vectors; ``asked``: as ``pinned``, and a
            text for it follows; ``begun``: always, and one follows.
        wait_seconds: longest wait for a process that holds the directory without answering;
            None: the usual one.

    Raises:
        DirectoryLocked: another process holds the directory and does not answer.
    """
    url = url_of(args) if "url" in args else None
    if url is not None:
        with client_for_url(args, url) as client:
            yield client
        return
    settings = settings_of(args)
    running = running_node(settings.data_dir)
    if running is not None:
        with running:
            yield running
        return
    new = create and not is_data_directory(settings.data_dir)
    if new:
        print(f"engramlog: making the data directory {settings.data_dir}", file=sys.stderr)
    with ExitStack() as ahead:
        with loading_modules():
            if embedding in ("asked", "begun"):
                from engramlog.projections.embedding.model_ahead import model_ahead

                begins = new and embedding == "begun"
                ahead.enter_context(
                    model_ahead(settings.embedding, settings.data_dir, begins=begins)
                )
            from engramlog.api.cli.opening import HANDOVER_SECONDS_MAX, opened

        wait = HANDOVER_SECONDS_MAX if wait_seconds is None else wait_seconds
        with opened(settings, create=create, embedding=embedding, wait_seconds=wait) as client:
            yield client
