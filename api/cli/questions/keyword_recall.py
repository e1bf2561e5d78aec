"""``engramlog recall --translated``: abmind's command line, output and behaviour.

Hits go to stdout as a JSON array, and the search's summary to stderr in one line.
"""

import argparse
import json
import sys
from typing import Any

from engramlog.api.answers.recall.statements import statement_of
from engramlog.api.cli.arguments import CommandError, add_user_argument, user_named
from engramlog.api.cli.reach import reach

PROFILE = "abmind"
PROFILE_OF_INTENT = {"ambient": "abmind-head"}
"""Profiles of requests that have an intent and name no profile."""
LIMIT = 10
LIMIT_MAX = 50
CLASSIFICATION = 2
CLASSIFICATION_MAX = 3
KEYWORDS_ONLY = (
    "original", "topic", "emotion", "pool", "stages", "max_classification", "time_start",
    "time_end", "include_expired", "full",
)  # fmt: skip
"""Arguments that a question in words does not take."""
CONTENT_MAX = 500
"""Characters of a fact to show without ``--full``."""


def add_keyword_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of abmind's own command."""
    group = parser.add_argument_group("keywords instead of a question (as abmind)")
    group.add_argument(
        "--translated", "--keywords", metavar="KW1,KW2",
        help="keywords in the language of the searches; one of several words is a phrase",
    )  # fmt: skip
    group.add_argument("--original", metavar="TEXT", help="the question in the user's own words")
    group.add_argument("--topic", help="only facts of this topic")
    group.add_argument("--emotion", help="emotion tags, or positive, negative, high-energy")
    group.add_argument("--pool", choices=("core", "general"), help="only facts of this tier")
    group.add_argument("--stages", metavar="Sf,Se", help="only these stages, by name or label")
    group.add_argument(
        "--max-classification", type=int, metavar="0-3", help="highest class (default: 2)"
    )
    for name in ("start", "end"):
        group.add_argument(
            f"--time-{name}", metavar="WHEN", help="recorded: milliseconds since 1970, or RFC 3339"
        )
    group.add_argument(
        "--include-expired", action="store_true", help="also facts whose validity is over"
    )
    group.add_argument(
        "--intent", choices=("ambient", "explicit"),
        help="ambient: drop words that most facts contain, and skip the search if no other word "
             "is left (only in profiles with an ambient mode); explicit: take the words exactly "
             "as given",
    )  # fmt: skip
    group.add_argument("--full", action="store_true", help="whole texts")
    add_user_argument(group)


def run_keyword_recall(args: argparse.Namespace) -> int:
    """Ask by keywords; print the hits and the search's summary."""
    body = body_of(args)
    with reach(args, embedding="asked") as client:
        answer = client.post("/v1/recall", body)
    hits = [hit_of(item, whole=args.full) for item in answer["results"]]
    print(json.dumps(hits, ensure_ascii=False, indent=2))
    print(summary_of(answer), file=sys.stderr)
    if args.explain:
        print("\n".join(stage_lines(answer)), file=sys.stderr)
    if any("source_ids" in hit for hit in hits):
        expand = "engramlog facts lists what source_ids name: they are the facts' parents"
        print(f"[recall] {expand}", file=sys.stderr)
    return 0


def body_of(args: argparse.Namespace) -> dict[str, Any]:
    """The request. Raises CommandError if no keyword is left."""
    keywords = [part.strip() for part in args.translated.split(",") if part.strip()]
    if not keywords:
        raise CommandError('give keywords: engramlog recall --translated "project,deadline"')
    highest = CLASSIFICATION if args.max_classification is None else args.max_classification
    optional = {
        "original": args.original,
        "topic": args.topic,
        "emotion": args.emotion,
        "tier": args.pool,
        "stages": None if args.stages is None else args.stages.split(","),
        "time_start": _when(args.time_start),
        "time_end": _when(args.time_end),
        "include_expired": args.include_expired or None,
        "intent": args.intent,
        "as_of": args.as_of,
        "valid_at": args.valid_at,
        "source": None if args.user_id is None else user_named(args.user_id),
    }
    return {
        "query": " ".join(keywords),
        "translated": keywords,
        "scope": args.scope,
        "limit": min(max(args.limit, 1), LIMIT_MAX),
        "max_classification": min(max(highest, 0), CLASSIFICATION_MAX),
        "profile": args.profile or PROFILE_OF_INTENT.get(args.intent, PROFILE),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _when(given: str | None) -> int | str | None:
    return int(given) if given is not None and given.isdecimal() else given


def hit_of(item: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """A result in abmind's form; omits fields that the profile does not fill."""
    own: dict[str, Any] = item.get("metadata", {})
    content = statement_of(item)
    if not whole and len(content) > CONTENT_MAX:
        content = content[: CONTENT_MAX - 1] + "…"
    hit = {
        "id": item["id"],
        "content": content,
        "date": item["timestamp"],
        "source": item["found_by"],
        "score": item["score"],
        "source_ids": item["derived_from_hashes"] or None,
        "contentOriginal": own.get("original") or None,
        "memoryType": own.get("memory_type"),
        "trust": own.get("trust"),
        "integrity": own.get("integrity"),
        "credibility": own.get("credibility"),
        "classification": own.get("classification"),
        "timelineContext": item.get("timeline_context"),
        "interferenceWarning": item.get("interference_warning"),
        "topic": own.get("topic"),
        "emotionTags": own.get("emotion_tags"),
        "emotionScore": own.get("emotion_score"),
        "importanceFlags": own.get("importance_flags"),
        "confidence": own.get("confidence"),
        "createdAt": own.get("created_at"),
    }
    return {name: value for name, value in hit.items() if value is not None}


def summary_of(answer: dict[str, Any]) -> str:
    """``[recall] query="…" Sf=4 Se=2 short_circuit=none total=5``."""
    labels = {stage["name"]: stage["label"] or stage["name"] for stage in answer["stages"]}
    ran = [stage for stage in answer["stages"] if stage["status"] == "completed"]
    counts = " ".join(f"{labels[stage['name']]}={stage['hits']}" for stage in ran)
    after = answer["short_circuit_after"]
    short = "none" if after is None else labels[after]
    query = json.dumps(answer["query"], ensure_ascii=False)
    found = f"{counts} short_circuit={short} total={len(answer['results'])}".lstrip()
    notes = ""
    if answer["search_skipped"]:
        notes = f" search_skipped={answer['search_skipped_reason']}"
    elif answer["weak_evidence"]:
        notes = " evidence=weak"
    if answer["dropped_terms"]:
        notes += f" dropped={json.dumps(answer['dropped_terms'], ensure_ascii=False)}"
    return f"[recall] query={query} {found}{notes}"


def stage_lines(answer: dict[str, Any]) -> list[str]:
    """Each stage's hits and time, in the form of abmind's seed."""
    lines = [f"Query: {json.dumps(answer['query'], ensure_ascii=False)}"]
    for stage in answer["stages"]:
        found = f"{stage['hits']} hit{'' if stage['hits'] == 1 else 's'}"
        took = f"{found} ({stage['milliseconds']:.0f}ms)"
        why = stage["detail"]
        if stage["status"] != "completed":
            took = stage["status"] + (f" ({why})" if why else "")
        elif why:
            took += f" — {why}"
        lines.append(f"Stage {stage['label'] or stage['name']}: {took}")
    lines.append(f"→ {answer['total_scored']} candidates → top {len(answer['results'])} returned")
    return lines
