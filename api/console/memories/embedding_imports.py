"""Vectors for imported facts, before the import ends."""

import argparse
import sys
from time import sleep

from engramlog.api.console.progress import POLL_SECONDS, progress_bar
from engramlog.api.console.reach import reach
from engramlog.api.settings import Settings
from engramlog.projections.embedding.errors import EmbeddingError

WAITING_MAX = 2_000
"""Most facts without a vector for which an import waits: about ten seconds with the bundled
model."""


def embed_imported(args: argparse.Namespace, settings: Settings, facts: int) -> None:
    """Give the facts of a directory into which this process has imported ``facts`` their vectors;
    the first time, this pins the model. What prevents it goes to stderr: the facts are stored all
    the same."""
    if settings.embedding.provider == "none" or not facts:
        return
    try:
        left = _too_many(facts) if facts > WAITING_MAX else _embed(args)
    except EmbeddingError as fault:
        left = f"cannot embed the facts: {fault}"
    except KeyboardInterrupt:
        left = "stopped; the facts are stored, and some have no vector yet"
        raise KeyboardInterrupt(f"{left}{_advice(settings)}") from None
    if left is not None and not args.quiet:
        print(f"engramlog: {left}{_advice(settings)}", file=sys.stderr)


def _embed(args: argparse.Namespace) -> str | None:
    """Wait for the vectors, if they take seconds. Returns why some are missing."""
    with (
        reach(args, embedding="begun") as client,
        progress_bar("embed", "fact", quiet=args.quiet) as bar,
    ):
        while True:
            status = client.get("/v1/embeddings")
            waiting: int = status["waiting"]
            if status["error"] is not None:
                return f"cannot embed the facts: {status['error']}"
            if waiting > WAITING_MAX:
                return _too_many(waiting)
            if not status["lag"]:
                return None
            bar.show(status["vectors"], status["vectors"] + waiting)
            sleep(POLL_SECONDS)


def _too_many(facts: int) -> str:
    return f"{facts:,} facts have no vector yet"


def _advice(settings: Settings) -> str:
    return (
        f"; 'engramlog embeddings reindex --data {settings.data_dir}' or a node that serves the "
        "directory embeds them"
    )
