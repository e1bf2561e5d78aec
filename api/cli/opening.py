"""Opening a data directory in this process, for commands that reach no running node."""

import os
import pwd
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Literal

from engramlog.api.cli.arguments import CommandError, warn
from engramlog.api.cli.progress import progress_bar
from engramlog.api.client.client import Client
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import Control, running_node
from engramlog.api.node.process.process_tuning import settle_heap, take_short_turns
from engramlog.api.node.process.serving import serve_in_background
from engramlog.api.settings import Settings
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.directory import is_data_directory, no_data_directory
from engramlog.eventlog.errors import DirectoryLocked
from engramlog.projections.embedding.choosing import follow_pin
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.tables.declared.policies import USUAL_RELATIONS

Embedding = Literal["off", "pinned", "loaded", "asked", "begun"]
"""Whether to open a directory with its embeddings: ``pinned``: if serving has pinned a model;
``loaded``: the same, with its vectors; ``asked``: as ``pinned``, and a text for it follows;
``begun``: always, and one follows."""
HANDOVER_SECONDS_MAX = 15.0
"""Longest wait for a process that holds the directory without answering."""
HANDOVER_POLL_S = 0.1


def open_node(
    settings: Settings,
    *,
    clock: Clock | None = None,
    from_file: bool = False,
    create: bool = True,
    embedding: EmbeddingSettings | None = None,
    imports: bool = False,
    accept_rollback: bool = False,
) -> Node:
    """Open the data directory, with a progress bar while it catches up.

    Args: embedding: how to embed facts, for commands that recall or serve.
        accept_rollback: see ``Node.open``.
        imports: the import alone declares relations; adds no usual ones.

    Raises:
        CommandError: it does not exist and ``create`` is off. DirectoryLocked and the other errors
        of ``Node.open``.
    """
    path = settings.data_dir
    if not create and not is_data_directory(path):
        raise CommandError(f"{no_data_directory(path)}; name one with --data")
    owner = _other_owner(path)
    usual = settings.set_valued_defaults and not imports
    with progress_bar("catching up", "event") as progress:
        node = Node.open(
            path,
            clock=clock,
            set_valued=settings.set_valued_relations,
            set_valued_at_birth=USUAL_RELATIONS if usual else (),
            epoch_clock="file" if from_file else "wall",
            embedding=embedding,
            progress=progress.show,
            log=settings.log,
            durability=settings.log_durability,
            scopes=settings.scopes,
            accept_rollback=accept_rollback,
        )
    if owner is not None:
        warn(
            f"{path} belongs to {owner}, whose node cannot open the files that root makes there: "
            f"start that node first, or 'chown -R {owner} {path}' afterwards"
        )
    settle_heap()
    take_short_turns()
    return node


def _other_owner(path: Path) -> str | None:
    """The user whose directory root opens, if it is not its own. None for other callers."""
    known = path / "lock" if (path / "lock").exists() else path
    if os.geteuid() != 0 or not known.exists():
        return None
    user = known.stat().st_uid
    try:
        return None if user == 0 else pwd.getpwuid(user).pw_name
    except KeyError:  # of a container, or dynamic
        return str(user)


def node_or_client(
    settings: Settings, opening: Callable[[], Node], wait_seconds: float = HANDOVER_SECONDS_MAX
) -> Node | Client:
    """The directory, opened by ``opening``, or a client of the node that serves it. Waits for a
    process that holds it without answering: another command, or a node that starts or ends. Raises
    DirectoryLocked: it still does not answer. The errors of ``opening``."""
    deadline = monotonic() + wait_seconds
    while True:
        try:
            return opening()
        except DirectoryLocked as fault:
            running = running_node(settings.data_dir)
            if running is not None:
                return running
            if monotonic() >= deadline:
                raise DirectoryLocked(f"{fault}, which does not answer commands") from fault
        sleep(HANDOVER_POLL_S)


@contextmanager
def opened(
    settings: Settings, *, create: bool, embedding: Embedding, wait_seconds: float
) -> Generator[Client]:
    """A client of the directory for the length of a ``with`` block; see ``reach``. Raises
    DirectoryLocked: another process holds it and does not answer."""
    node = node_or_client(settings, lambda: open_node(settings, create=create), wait_seconds)
    if isinstance(node, Client):
        with node:
            yield node
        return
    with (
        embedded(node, settings, embedding) as control,
        Client(control.url, control.token) as client,
    ):
        yield client


@contextmanager
def embedded(node: Node, settings: Settings, embedding: Embedding) -> Generator[Control]:
    """An open node, served to this process for the length of a ``with`` block, then closed."""
    try:
        if embedding == "begun" or (embedding != "off" and node.pinned_space() is not None):
            node.embed(follow_pin(settings.embedding, node.pinned_space()))
        if embedding == "loaded" and node.embeddings is not None:
            node.embeddings.wait_until_loaded()
        # The port is temporary: the node reports its configured URL.
        here = {"host": "127.0.0.1", "port": 0, "node_url": settings.public_url}
        quiet = settings.model_copy(update=here)
        with serve_in_background(node, quiet) as control:
            yield control
    finally:
        node.close()
