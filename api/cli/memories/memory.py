"""``engramlog memory store``: abmind's command that writes, with its flags and its output."""

import argparse
import json
from typing import Any

from engramlog.api.cli.arguments import CommandError, add_target_arguments, add_user_argument, warn
from engramlog.api.cli.reach import reach
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.client.client import path_segment

STORE = "/v1/memories"
STEP = 10
"""How far ``--boost`` and ``--demote`` shift the relevance."""
EXAMPLES = """\
examples:
  engramlog memory store --data memory --user-id ann --memory-type preference \\
      --emotion-score 2 --translated "Ann likes green tea" --original "Ann szereti a zöld teát"
  engramlog memory store --data memory --boost 0b7c3a5e-…
  engramlog memory store --data memory --reclassify 0b7c3a5e-… --classification 2
  engramlog memory store --data memory --merge --merge-ids 0b7c3a5e-…,1d2e4f60-…
"""
_WORDS = ("original", "language", "memory_type", "emotion_score", "emotion_tags",
          "emotion_context", "importance_flags", "classification", "topic", "tier", "tags",
          "trust", "integrity", "credibility", "scope", "garden_id", "entity", "user_id",
          "confidence")  # fmt: skip
_RATINGS = (
    ("classification", "0..3", "0 public to 3 secret"),
    ("trust", "0..3", "0 web or unknown, 1 peer, 2 self, 3 owner"),
    ("integrity", "0..3", "0 verbatim to 3 compacted"),
    ("credibility", "1..6", "1 confirmed to 5 improbable, 6 unknown"),
)
_NEEDED = ("translated", "original", "memory_type", "emotion_score", "user_id")


def register(commands: Subcommands) -> None:
    add_store_command(commands.group("memory", "store memories as abmind does", EXAMPLES))


def add_store_command(commands: Subcommands) -> None:
    """``store``, as ``engramlog memory`` and abmind have it."""
    parser = commands.add("store", "store, rate, reclassify or merge memories", run_store, EXAMPLES)
    add_target_arguments(parser, json=True)
    _add_words(parser)
    other = parser.add_argument_group("instead of storing")
    for name, does in (("boost", "raise"), ("demote", "lower")):
        help_text = f"{does} a memory's relevance by {STEP}"
        other.add_argument(f"--{name}", metavar="FACT_ID", help=help_text)
    other.add_argument(
        "--reclassify", metavar="FACT_ID", help="set a memory's --classification; admins may lower"
    )
    other.add_argument("--merge", action="store_true", help="merge two memories into the newer")
    other.add_argument("--merge-ids", metavar="A,B", help="their ids")


def _add_words(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the memory (the first five are needed)")
    group.add_argument("--translated", metavar="TEXT", help="in the language of the searches")
    group.add_argument("--original", metavar="TEXT", help="in the user's own words")
    group.add_argument("--memory-type", metavar="TYPE", help="fact, decision, preference, …")
    group.add_argument("--emotion-score", type=int, metavar="-5..5", help="-5 (bad) to 5 (good)")
    add_user_argument(group)
    for flag, metavar, text in (
        ("--language", "TAG", "of --original, such as hu"),
        ("--topic", "WORD", "default: general"),
        ("--tags", "A,B", "further keywords"),
        ("--emotion-tags", "A,B", "such as joy,relief"),
        ("--emotion-context", "TEXT", "why"),
        ("--importance-flags", "A,B", "such as milestone,decision"),
        ("--tier", "TIER", "core or general"),
        ("--scope", "SCOPE", "default: local"),
        ("--garden-id", "GARDEN", "a garden instead"),
        ("--entity", "URI", "the entity (default: the owner)"),
    ):
        group.add_argument(flag, metavar=metavar, help=text)
    for flag, metavar, text in _RATINGS:
        group.add_argument(f"--{flag}", type=int, metavar=metavar, help=text)
    group.add_argument("--confidence", type=float, metavar="0..1", help="default: 1")
    group.add_argument("--no-supersede", action="store_true", help="do not end older memories")


def run_store(args: argparse.Namespace) -> int:
    """Store a memory, or change some; exit code 1 if it is not stored."""
    method, path, body = request_of(args)
    storing = path == STORE
    with reach(args, create=storing, embedding="asked" if storing else "off") as client:
        answer: dict[str, Any] = client.request(method, path, body=body)
    stored = bool(answer.get("stored", True))
    warn(*answer.get("warnings", ()))
    shown_answer = answer if args.json else shown(answer)
    print(json.dumps(shown_answer, ensure_ascii=False, separators=(",", ":")))
    return 0 if stored else 1


def request_of(args: argparse.Namespace) -> tuple[str, str, dict[str, Any]]:
    """Method, path and body. Raises CommandError if flags are missing or contradict."""
    rated = args.boost or args.demote
    changes = [args.boost, args.demote, args.reclassify, args.merge or args.merge_ids]
    if sum(each not in (None, False) for each in changes) > 1:
        raise CommandError("give one of --boost, --demote, --reclassify and --merge")
    if rated is not None:
        change = STEP if args.boost else -STEP
        return "PATCH", _attributes_path(rated), {"relevance_change": change}
    if args.reclassify is not None:
        if args.classification is None:
            raise CommandError("--reclassify needs --classification")
        wanted = {"classification": args.classification}
        return "PATCH", _attributes_path(args.reclassify), wanted
    if args.merge or args.merge_ids:
        ids = [each.strip() for each in (args.merge_ids or "").split(",") if each.strip()]
        if len(ids) != 2:
            raise CommandError("--merge needs --merge-ids with two ids, a comma between")
        return "POST", "/v1/memories/merge", {"ids": ids}
    missing = [name for name in _NEEDED if getattr(args, name) is None]
    if missing:
        flags = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise CommandError(f"missing {flags}")
    body = {name: getattr(args, name) for name in _WORDS if getattr(args, name) is not None}
    body |= {"content": args.translated, "supersede": not args.no_supersede}
    return "POST", STORE, body


def _attributes_path(fact_id: str) -> str:
    return f"/v1/facts/{path_segment(fact_id, safe=':')}/attributes"


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """abmind's output: whether a memory was stored, how many, and why not."""
    if "stored" not in answer:  # changed an existing memory
        return {"stored": True, "memoriesCount": 1}
    names = ("stored", "memoriesCount", "error") if answer["stored"] else ("stored", "error")
    return {name: answer[name] for name in names if name in answer}
