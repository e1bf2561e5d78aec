"""How much of the evidence recall finds, on the LoCoMo conversations.

Ours are the profiles as they come; the baselines are plain BM25, meaning alone, and the
profile ``default`` without one of its parts. No profile sees the questions' answers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.locomo import DATA, Question, Store, conversations, stored
from benchmarks.ranking import Grade, found, grade, paired_bootstrap
from benchmarks.report import Figure, say
from projections.embedding.settings import EmbeddingSettings
from projections.recall.profile import Profile, parse_profile

PLENTY_TOKENS = 100_000
BUDGETS = (720, 4096)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
AIMS = {0: ">= 83 %", 1: ">= 58 %"}
BASELINE = "plain BM25"

_PLAIN: dict[str, Any] = {
    "description": "One stage alone, as textbooks have it.",
    "depth": 0,
    "gate": {"min_confidence": 0.0},
    "diversity": {"lambda": 1.0},
}
_BM25 = {"name": "lexical", "weight": 1.0, "parameters": {"k1": 1.2, "b": 0.75}}
_MEANING = {"name": "semantic", "weight": 1.0}


def measure(facts: int) -> list[Figure]:
    """Figures for all questions (``facts`` plays no part)."""
    del facts
    if not DATA.exists():
        say("recall_quality: skipped, ../shared/data/locomo is not here")
        return []
    with tempfile.TemporaryDirectory() as name:
        say("three conversations are written and embedded")
        model = EmbeddingSettings(provider="minilm")
        with stored(Path(name), conversations(), model) as stores:
            return _figures(stores)


def shipped(name: str) -> dict[str, Any]:
    """The document of a profile that comes with the node."""
    path = files("projections.recall").joinpath("profiles", f"{name}.json")
    return msgspec.json.decode(path.read_bytes())


def systems() -> dict[str, Profile]:
    """What is compared, by name; ours first."""
    ours = shipped("default")
    no_graph = [each for each in ours["stages"] if each["name"] != "graph"]
    plain_factors = [e for e in ours["factors"] if e["name"] not in ("statement", "substance")]
    documents: dict[str, dict[str, Any]] = {
        "default": ours,
        "stigmem": shipped("stigmem"),
        BASELINE: _PLAIN | {"stages": [_BM25]},
        "meaning alone": _PLAIN | {"stages": [_MEANING]},
        "BM25 and meaning, same weight": _PLAIN | {"stages": [_BM25, _MEANING]},
        "default, lexical alone": ours | {"stages": [ours["stages"][0]]},
        "default, semantic alone": ours | {"stages": [ours["stages"][1]]},
        "default, no graph": ours | {"stages": no_graph},
        "default, no context": {key: v for key, v in ours.items() if key != "context"},
        "default, no statement, substance": ours | {"factors": plain_factors},
        "default, no MMR": ours | {"diversity": {"lambda": 1.0}},
    }
    return {name: parse_profile(made | {"name": "tried"}) for name, made in documents.items()}


def variants() -> dict[str, Profile]:
    """``default`` and what else its numbers might have been, for leave-one-out."""
    ours = shipped("default")
    context = ours["context"]
    shares = {
        key: [[round(share * by, 3) for share in context[key]] for by in (0.5, 1.5)]
        for key in ("before", "after")
    }
    tried: dict[str, dict[str, Any]] = {
        "as shipped": ours,
        "half the context": ours
        | {"context": context | {key: value[0] for key, value in shares.items()}},
        "more context": ours
        | {"context": context | {key: value[1] for key, value in shares.items()}},
        "session 0.1": ours | {"context": context | {"session": 0.1}},
        "session 0.5": ours | {"context": context | {"session": 0.5}},
        "lexical heavier": ours | {"stages": _weighted(ours, 0.5, 0.4)},
        "semantic heavier": ours | {"stages": _weighted(ours, 0.3, 0.6)},
        "questions count fully": ours | {"factors": _floored(ours, "statement", 1.0)},
        "questions count a quarter": ours | {"factors": _floored(ours, "statement", 0.25)},
        "length counts more": ours | {"factors": _floored(ours, "substance", 0.4)},
        "more diverse": ours | {"diversity": ours["diversity"] | {"lambda": 0.75}},
        "less diverse": ours | {"diversity": ours["diversity"] | {"lambda": 0.95}},
    }
    return {name: parse_profile(made | {"name": "tried"}) for name, made in tried.items()}


def _weighted(document: Mapping[str, Any], lexical: float, semantic: float) -> list[Any]:
    weights = {"lexical": lexical, "semantic": semantic}
    stages = document["stages"]
    return [each | {"weight": weights.get(each["name"], each["weight"])} for each in stages]


def _floored(document: Mapping[str, Any], name: str, floor: float) -> list[Any]:
    return [
        each | {"parameters": {"floor": floor}} if each["name"] == name else each
        for each in document["factors"]
    ]


def grades(stores: Sequence[Store], profile: Profile) -> list[Grade]:
    """Of every question, conversation by conversation."""
    return [
        grade(store.ask(profile, question.text, PLENTY_TOKENS), question.evidence)
        for store in stores
        for question in store.conversation.questions
    ]


def _figures(stores: Sequence[Store]) -> list[Figure]:
    questions = [each for store in stores for each in store.conversation.questions]
    compared = systems()
    graded: dict[str, list[Grade]] = {}
    for name, profile in compared.items():
        say(f"{name}: {len(questions)} questions")
        graded[name] = grades(stores, profile)
    print(_overview(graded, questions))
    print(_bootstraps(graded))
    figures = _found(graded, questions)
    for name in ("default", "stigmem", BASELINE):
        figures += _within(stores, name, compared[name])
    return [*figures, *_left_out(stores, graded[BASELINE])]


def _share(values: Sequence[float]) -> float:
    return 100.0 * float(np.mean(values))


def _found(graded: Mapping[str, list[Grade]], questions: Sequence[Question]) -> list[Figure]:
    """Evidence in the top ten, overall and by category."""
    figures: list[Figure] = []
    for name in ("default", "stigmem"):
        for category, label in {0: "all", **CATEGORIES}.items():
            chosen = [n for n, q in enumerate(questions) if category in (0, q.category)]
            ours = _share([graded[name][n].found10 for n in chosen])
            theirs = _share([graded[BASELINE][n].found10 for n in chosen])
            aim = AIMS.get(category, "") if name == "default" else ""
            measured = f"{name}, evidence in the top 10, {label}"
            baseline = f"{BASELINE}, {theirs:.1f} %"
            figures.append(Figure(measured, ours, "%", baseline, ours / theirs, aim))
    return figures


def _within(stores: Sequence[Store], name: str, profile: Profile) -> list[Figure]:
    """Evidence within a budget of tokens, by the profile's own estimate of them."""
    figures: list[Figure] = []
    for budget in BUDGETS:
        shares = [
            found(store.ask(profile, question.text, budget), question.evidence)
            for store in stores
            for question in store.conversation.questions
        ]
        figures.append(Figure(f"{name}, evidence within {budget} tokens", _share(shares), "%"))
    return figures


def _left_out(stores: Sequence[Store], baseline: Sequence[Grade]) -> list[Figure]:
    """Each conversation under the variant that is best on the two others."""
    tried = variants()
    scores: dict[str, list[list[float]]] = {}
    for variant, profile in tried.items():
        say(f"leave one out: {variant}")
        scores[variant] = [[g.found10 for g in grades([store], profile)] for store in stores]
    figures: list[Figure] = []
    unseen: list[float] = []
    first = 0
    for left_out, store in enumerate(stores):
        others = {
            variant: _share([s for n, part in enumerate(each) if n != left_out for s in part])
            for variant, each in scores.items()
        }
        chosen = max(others, key=lambda variant: others[variant])
        here = scores[chosen][left_out]
        unseen += here
        theirs = _share([g.found10 for g in baseline[first : first + len(here)]])
        first += len(here)
        measured = f"left out: {store.conversation.name} ({chosen})"
        against = f"{BASELINE}, {theirs:.1f} %"
        figures.append(Figure(measured, _share(here), "%", against, _share(here) / theirs))
    asked = [each.category for store in stores for each in store.conversation.questions]
    hops = [share for share, category in zip(unseen, asked, strict=True) if category == 1]
    return [
        *figures,
        Figure("left out: all three", _share(unseen), "%", aim=AIMS[0]),
        Figure("left out: all three, multi-hop", _share(hops), "%", aim=AIMS[1]),
    ]


def _overview(graded: Mapping[str, list[Grade]], questions: Sequence[Question]) -> str:
    """Every system and every measure, as aligned text."""
    measures = Grade.__struct_fields__
    header: tuple[str, ...] = (
        "system",
        *measures,
        *(f"{n} {label}" for n, label in CATEGORIES.items()),
    )
    rows: list[tuple[str, ...]] = [header]
    for name, each in graded.items():
        cells = [float(np.mean([getattr(g, key) for g in each])) for key in measures]
        for category in CATEGORIES:
            of = [g.found10 for g, q in zip(each, questions, strict=True) if q.category == category]
            cells.append(float(np.mean(of)) if of else 0.0)
        rows.append((name, *(f"{cell:.3f}" for cell in cells)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _bootstraps(graded: Mapping[str, list[Grade]]) -> str:
    """``default`` against every other system, with the interval of the difference."""
    ours = [g.found10 for g in graded["default"]]
    lines = ["", "default is better by (evidence in the top 10, 95 % of paired resamples)"]
    for name, each in graded.items():
        if name != "default":
            d = paired_bootstrap(ours, [g.found10 for g in each])
            lines.append(f"  {d.mean:+.3f}  [{d.low:+.3f}, {d.high:+.3f}]  than {name}")
    return "\n".join([*lines, ""])
