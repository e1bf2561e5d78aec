"""The bundled profiles on the LoCoMo conversations: the share of evidence found, the time, each
stage's contribution, and the loss without each part.

All answer with twenty facts; a profile that counts tokens gets plenty of them. Times are of the
processor, which other load on the machine does not lengthen.
"""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from msgspec import Struct

from benchmarks.question_sets import DATA, Question, Store, conversations, stored
from benchmarks.ranking import found
from benchmarks.recall_quality import PLENTY_TOKENS, shipped
from benchmarks.report import Figure, percentile, say
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.recall.profile import Profile, parse_profile, profile_names
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.stages.candidates import StageOutcome

LIMIT = 20
CUTS = (5, 10, 20)
TAKEN_APART = ("abmind", "abmind-head")


class Asked(Struct, frozen=True):
    """One question's ranking, its cost, and its stages' outcomes."""

    ranked: list[str]
    question: Question
    milliseconds: float
    stages: tuple[StageOutcome, ...]


def measure(facts: int) -> list[Figure]:
    """Figures for all questions (``facts`` is not used)."""
    del facts
    if not DATA.exists():
        say("profiles: skipped, ../shared/data/locomo is not here")
        return []
    with tempfile.TemporaryDirectory() as name:
        say("three conversations are written and embedded")
        model = EmbeddingSettings(provider="minilm")
        with stored(Path(name), conversations(), model) as stores:
            return figures(stores)


def figures(stores: Sequence[Store]) -> list[Figure]:
    """Every profile, then the parts of some; tables of all go to standard output."""
    shown = {name: parse_profile(shipped(name) | {"name": "tried"}) for name in profile_names()}
    parts = {name: ablations(name) for name in TAKEN_APART}
    systems = dict(shown)
    for name, tried in parts.items():
        systems |= {f"{name}, {what}": profile for what, profile in tried.items()}
    asked = ask_all(stores, systems, frozenset(shown))
    for name in shown:
        print(_stages(name, asked[name]))
    for name, tried in parts.items():
        print(f"\n{name}\n" + _ablation({what: asked[f"{name}, {what}"] for what in tried}))
    return [figure for name in shown for figure in _figures(name, asked[name])]


def ablations(name: str) -> dict[str, Profile]:
    """A profile, and its variants without one part, by the difference."""
    ours = shipped(name)
    tried: dict[str, Mapping[str, Any]] = {"as shipped": {}}
    stages: list[dict[str, Any]] = ours["stages"]
    for stage in stages:
        label = stage["label"]
        tried[f"without {label}"] = _without_stage(ours, stage["name"])
        if label in ("Sf", "Se", "Ss"):
            tried[f"{label} alone"] = _only_stage(ours, stage["name"])
    for factor in ours["factors"]:
        if "stage" not in factor["parameters"]:
            continue  # the turns have no attributes, and all are of today
        others = [each for each in ours["factors"] if each["name"] != factor["name"]]
        tried[f"without {factor['name']}"] = {"factors": others}
    unskipped = [{k: v for k, v in each.items() if k != "skipped_after"} for each in stages]
    if unskipped != stages:
        tried["no stage skipped"] = {"stages": unskipped}
    tried["signatures of version 2"] = {
        "stages": [
            each | {"parameters": {"version": 2, "threshold": 0.55, "cap": 5}}
            if each["name"] == "simhash"
            else each
            for each in stages
        ]
    }
    tried["without MMR"] = {"diversity": ours["diversity"] | {"lambda": 1.0}}
    documents = {what: {**ours, **made, "name": "tried"} for what, made in tried.items()}
    return {what: parse_profile(document) for what, document in documents.items()}


def _without_stage(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parts of a document that name a stage, without it."""
    kept = [each for each in document["stages"] if each["name"] != name]
    return {
        "stages": [
            {k: v for k, v in each.items() if k != "skipped_after" or v["stage"] != name}
            for each in kept
        ],
        "factors": [
            each
            for each in document["factors"]
            if name not in (each["parameters"].get("stage"), each["parameters"].get("by"))
        ],
        "fusion": document["fusion"]
        | {"fixed": [each for each in document["fusion"].get("fixed", []) if each != name]},
    }


def _only_stage(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    kept = dict(document)
    for each in document["stages"]:
        if each["name"] != name:
            kept |= _without_stage(kept, each["name"])
    return kept


def ask_all(
    stores: Sequence[Store], systems: Mapping[str, Profile], timed: Collection[str] = ()
) -> dict[str, list[Asked]]:
    """Every question under every system, question by question, so that it is embedded once. The
    ``timed`` ones run once before."""
    asked: dict[str, list[Asked]] = {name: [] for name in systems}
    for store in stores:
        say(f"{store.conversation.name}: {len(store.conversation.questions)} questions")
        for question in store.conversation.questions:
            request = RecallRequest(query=question.text, limit=LIMIT, token_budget=PLENTY_TOKENS)
            for name, profile in systems.items():
                if name in timed:
                    store.answer(profile, request)
                began = process_time()
                answer = store.answer(profile, request)
                took = (process_time() - began) * 1000.0
                asked[name].append(Asked(store.turns(answer), question, took, answer.stages))
    return asked


def share_found(asked: Sequence[Asked], cut: int) -> float:
    """Mean share of a question's evidence among its first ``cut`` facts."""
    return float(np.mean([found(each.ranked[:cut], each.question.evidence) for each in asked]))


def _figures(name: str, asked: Sequence[Asked]) -> list[Figure]:
    times = [each.milliseconds for each in asked]
    return [
        *(
            Figure(f"{name}, evidence in the top {cut}", 100 * share_found(asked, cut), "%")
            for cut in CUTS
        ),
        Figure(f"{name}, recall p50", percentile(times, 0.5), "ms"),
        Figure(f"{name}, recall p95", percentile(times, 0.95), "ms"),
    ]


def _stages(name: str, asked: Sequence[Asked]) -> str:
    """What each stage found, on average, and in how long."""
    lines = [f"\n{name:<14} questions run   hits    ms"]
    for at, stage in enumerate(asked[0].stages):
        ran = [each.stages[at] for each in asked if each.stages[at].status == "completed"]
        hits = float(np.mean([each.hits for each in ran])) if ran else 0.0
        took = float(np.mean([each.milliseconds for each in ran])) if ran else 0.0
        title = stage.label or stage.name
        lines.append(f"  {title:<12} {len(ran) / len(asked):>13.1%} {hits:>6.1f} {took:>5.2f}")
    return "\n".join(lines)


def _ablation(systems: Mapping[str, Sequence[Asked]]) -> str:
    lines = [f"{'':<28}" + "".join(f"R@{cut:<6}" for cut in CUTS)]
    for what, asked in systems.items():
        shares = "".join(f"{share_found(asked, cut):<8.3f}" for cut in CUTS)
        lines.append(f"{what:<28}{shares}".rstrip())
    return "\n".join(lines)
