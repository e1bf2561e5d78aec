"""Vectors for imported facts, before the import ends."""

import sys
from time import sleep

from engramlog.api.cli.progress import POLL_SECONDS, progress_bar
from engramlog.api.node.node import Node
from engramlog.api.settings import Settings
from engramlog.projections.embedding.choosing import follow_pin
from engramlog.projections.embedding.errors import EmbeddingError

WAITING_MAX = 2_000
"""Most facts without a vector for which an import waits: about ten seconds with the bundled
model."""


def embed_imported(node: Node, settings: Settings, facts: int, *, quiet: bool) -> None:
    """Give the facts of a node into which this process has imported ``facts`` new ones their
    vectors; the first time, this pins the model, by the import's clock. What prevents it goes to
    stderr: the facts are stored all the same."""
    if settings.embedding.provider == "none":
        return
    try:
        left = _too_many(facts) if facts > WAITING_MAX else _embed(node, settings, quiet=quiet)
    except EmbeddingError as fault:
        left = f"cannot embed the facts: {fault}"
    except KeyboardInterrupt:
        left = "stopped; the facts are stored, and some have no vector yet"
        raise KeyboardInterrupt(f"{left}{_advice(settings)}") from None
    if left is not None and not quiet:
        print(f"engramlog: {left}{_advice(settings)}", file=sys.stderr)


def _embed(node: Node, settings: Settings, *, quiet: bool) -> str | None:
    """Wait for the vectors, if they take seconds. Returns why some are missing."""
    node.embed(follow_pin(settings.embedding, node.pinned_space()))
    with progress_bar("embed", "fact", quiet=quiet) as bar:
        while node.embeddings is not None and (status := node.embeddings.status()) is not None:
            if status.error is not None:
                return f"cannot embed the facts: {status.error}"
            if status.waiting > WAITING_MAX:
                return _too_many(status.waiting)
            if not status.lag:
                return None
            bar.show(status.vectors, status.vectors + status.waiting)
            sleep(POLL_SECONDS)
    return None  # there is no model


def _too_many(facts: int) -> str:
    return f"{facts:,} facts have no vector yet"


def _advice(settings: Settings) -> str:
    return (
        f"; 'engramlog embeddings reindex --data {settings.data_dir}' or a node that serves the "
        "directory embeds them"
    )
