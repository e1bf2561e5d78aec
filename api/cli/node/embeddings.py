"""``engramlog embeddings``: the embedding model, and re-indexing with another one."""

import argparse
from typing import Any

from engramlog.api.cli.arguments import CommandError
from engramlog.api.cli.progress import finished, progress_bar
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, fields_of
from engramlog.api.cli.subcommands import Subcommands

EXAMPLES = """\
examples:
  engramlog embeddings status --data memory
  engramlog embeddings reindex --data memory                     (with the configured model)
  engramlog embeddings reindex --data memory --provider ollama --model mxbai-embed-large
  engramlog embeddings reindex --url http://127.0.0.1:8765 --provider minilm
"""


def register(commands: Subcommands) -> None:
    group = commands.group("embeddings", "show or change the embedding model", EXAMPLES)
    status = Request("GET /v1/embeddings", _show_status, embedding="loaded")
    group.reaching("status", "show the model and the backlog", status)
    parser = group.reaching(
        "reindex", "embed all facts again; the old vectors serve meanwhile", run_reindex, json=False
    )
    parser.add_argument(
        "--provider",
        choices=("auto", "ollama", "openai", "voyage", "minilm"),
        help="default: from the settings",
    )
    parser.add_argument("--model", help="the provider's model (default: the provider's own)")
    parser.add_argument(
        "--dimensions", type=int, metavar="N", help="dimensions of an unknown model"
    )
    parser.add_argument(
        "--truncated-dimensions",
        type=int,
        metavar="N",
        help="keep so many dimensions of a Matryoshka model's vectors",
    )


def _show_status(_: argparse.Namespace, status: dict[str, Any]) -> None:
    if not status["enabled"]:
        print("embedding is off, or has not begun; recall works by words and graph")
        return
    cut = status["truncated_dimensions"]
    kept = f", cut to {cut}" if cut else ""
    print(f"model      {status['provider']} {status['model']}")
    print(f"dimensions {status['dimensions']}{kept}")
    print(f"vectors    {status['vectors']}, waiting {status['waiting']}, lag {status['lag']}")
    if status["skipped"]:
        print(f"skipped    {status['skipped']} facts that the provider refuses")
    if status["error"]:
        print(f"error      {status['error']}")


def run_reindex(args: argparse.Namespace) -> int:
    """Re-index and wait for the end. Raises CommandError if it fails."""
    body = fields_of(args)
    if body and args.provider is None:
        raise CommandError("--model and dimensions need --provider")
    with reach(args, embedding="begun") as client, progress_bar("reindex", "fact") as bar:
        client.post("/v1/embeddings/reindex", body)
        report = finished(
            lambda: client.get("/v1/embeddings")["reindex"], "re-indexing failed: ", bar, "facts"
        )
    skipped = f", {report['skipped']} refused by the provider" if report["skipped"] else ""
    print(f"{report['vectors']:,} facts indexed with {report['space']}{skipped}")
    if report["changed"]:
        print("the log pins this model now: change settings that name another one")
    return 0
