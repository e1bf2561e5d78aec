"""``engramlog episodes``: record episodes, and list their facts."""

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from engramlog.api.cli.arguments import CommandError, add_moment_argument
from engramlog.api.cli.progress import progress_bar
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json

BATCH = 500
_OWN = ("user", "session", "agent", "id", "timestamp")
EXAMPLES = """\
examples:
  engramlog episodes add --data memory --user Alice --session S1 --agent rag "I moved to Graz"
  engramlog episodes add --data memory --file conversation.jsonl
  engramlog episodes list --data memory --user Alice --agent rag --limit 20
  engramlog episodes facts --data memory --user Alice --as-of 2026-01-01T00:00:00Z
"""

LIST = Request(
    "GET /v1/episodes",
    table(
        {
            "when": lambda each: each["timestamp"][:19],
            "session": "session",
            "agent": "agent",
            "id": "id",
            "content": "content",
        },
        empty="no episodes",
    ),
    part="episodes",
    page_max=1_000,
)
FACTS = Request(
    "GET /v1/deltas/facts",
    table(
        {
            "subject": lambda each: each["payload"].get("subject", ""),
            "predicate": lambda each: each["payload"].get("predicate", ""),
            "object": lambda each: each["payload"].get("object", each["payload"].get("content")),
            "confidence": lambda each: f"{each['confidence']:g}",
            "rule": lambda each: each["lineage"][0].get("rule_id", ""),
            "episodes": lambda each: ", ".join(each["lineage"][0].get("source_episode_ids", [])),
        },
        empty="no facts",
    ),
    part="facts",
)


def register(commands: Subcommands) -> None:
    group = commands.group("episodes", "record episodes, list them and their facts", EXAMPLES)
    parser = group.reaching("add", "record one episode, or a file of them", run_add)
    parser.add_argument("content", metavar="CONTENT", nargs="?", help="what happened")
    parser.add_argument("--file", type=Path, help="JSON lines, one episode each; - is stdin")
    for name in ("user", "session", "agent"):
        parser.add_argument(f"--{name}", help=f"the episode's {name}")
    parser.add_argument("--id", help="your name for it")
    parser.add_argument("--timestamp", metavar="INSTANT", help="when it happened (default: now)")
    parser.add_argument("--metadata", metavar="JSON", help="subject, predicate, object, intent, …")
    parser.add_argument("--scope", default="local", help="default: local")
    parser.add_argument("--garden", dest="garden_id", help="a garden in it")

    parser = group.reaching("list", "list a user's episodes, newest first", LIST)
    _add_owner(parser)
    parser.add_argument("--session", help="of this session alone")
    parser.add_argument("--limit", type=int, default=50, help="most episodes (default: 50)")

    parser = group.reaching("facts", "list a user's facts and their episodes", FACTS)
    _add_owner(parser)
    for name in ("subject", "predicate", "object"):
        parser.add_argument(f"--{name}", help=f"with exactly this {name}")
    parser.add_argument("--limit", type=int, default=100, help="most facts (default: 100)")


def _add_owner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the user")
    parser.add_argument("--agent", help="only with this agent")
    add_moment_argument(parser)


def run_add(args: argparse.Namespace) -> int:
    if (args.content is None) == (args.file is None):
        raise CommandError("give the content of one episode, or --file with many")
    given = [name for name in (*_OWN, "metadata") if getattr(args, name) is not None]
    if args.file is not None and given:
        raise CommandError(f"each line of --file has its own {given[0]}: leave out --{given[0]}")
    episodes = _of_file(args.file) if args.file is not None else [_of_arguments(args)]
    where = {"scope": args.scope}
    if args.garden_id is not None:
        where["garden_id"] = args.garden_id
    total: dict[str, Any] = {"recorded": 0, "known": 0, "episodes": [], "position": 0}
    few = len(episodes) <= BATCH
    with reach(args, create=True) as client, progress_bar("add", "episode", quiet=few) as bar:
        for start in range(0, len(episodes), BATCH):
            batch = episodes[start : start + BATCH]
            answer = client.post("/v1/episodes/batch", {"episodes": batch, **where})
            for name in ("recorded", "known", "episodes"):
                total[name] += answer[name]
            total["position"] = answer["position"]
            bar.show(start + len(batch), len(episodes))
    if args.json:
        print_json(total)
    else:
        print(f"recorded {total['recorded']} episodes, {total['known']} already known")
    return 0


def _of_arguments(args: argparse.Namespace) -> dict[str, Any]:
    missing = [name for name in ("user", "session", "agent") if getattr(args, name) is None]
    if missing:
        raise CommandError(f"an episode needs --{' --'.join(missing)}")
    fields = ("content", *_OWN)
    given = {name: getattr(args, name) for name in fields if getattr(args, name) is not None}
    if args.metadata is not None:
        given["metadata"] = _json(args.metadata.encode(), "--metadata")
    return given


def _of_file(path: Path) -> list[dict[str, Any]]:
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    lines = [line for line in data.splitlines() if line.strip()]
    return [_json(line, f"line {number}") for number, line in enumerate(lines, 1)]


def _json(data: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except ValueError as fault:
        raise CommandError(f"{where} is not a JSON object: {fault}") from fault
