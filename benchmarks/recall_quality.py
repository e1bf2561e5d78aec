"""The share of evidence that recall finds, on conversations of people, of people with assistants,
on passages, and on tables of facts.

Ours are the profiles as shipped; the baselines are plain BM25, meaning alone, each stage of
``default`` alone, and ``default`` without one of its parts. No profile sees the answers. The
bundled model embeds, unless ``STIGMEM_EMBED_*`` names another. Vectors are kept in the temporary
folder for the next run: half an hour's work the first time.
"""

import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from time import process_time
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from benchmarks.passage_questions import TWO_PASSAGES
from benchmarks.quality_tables import (
    BASELINE,
    OURS,
    Graded,
    bootstraps,
    categories,
    reliability,
    table_of,
)
from benchmarks.question_sets import SETS, Question, QuestionSet, Store, excerpts, stored
from benchmarks.ranking import Answered, auc, found
from benchmarks.report import Figure, percentile, say
from benchmarks.table_questions import TABLES
from engramlog.api.settings_sources import load_settings
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.recall.profile import Profile, parse_profile
from engramlog.projections.recall.request import RecallRequest

PLENTY_TOKENS = 1_000_000
BUDGETS = (720, 4096)
VECTORS = Path(tempfile.gettempdir()) / "engramlog-benchmark-vectors"
BUNDLED = EmbeddingSettings(provider="minilm")
EXCERPT_TURNS = (5, 12, 30)
EXCERPTS_MIN = 2
EXCERPTS = 12
"""Excerpts of a set for each length; of each of its conversations at least ``EXCERPTS_MIN``."""

_PLAIN: dict[str, Any] = {
    "description": "One stage alone, as textbooks have it.",
    "depth": 0,
    "gate": {"min_confidence": 0.0},
    "diversity": {"lambda": 1.0},
}
_BM25 = {"name": "lexical", "weight": 1.0, "parameters": {"k1": 1.2, "b": 0.75}}
_MEANING = {"name": "semantic", "weight": 1.0}


def measure(facts: int) -> list[Figure]:
    """Figures for all questions (``facts`` is not used)."""
    del facts
    every = (*SETS, TWO_PASSAGES, *TABLES)
    here = [each for each in every if each.path.exists()]
    if len(here) < len(every):
        say("recall_quality: some sets are skipped, ../shared/data is not here")
    model = embedder()
    kept = (
        VECTORS if model == BUNDLED else VECTORS / quote(f"{model.provider} {model.model}", safe="")
    )
    graded: dict[str, Graded] = {}
    varied: dict[str, Graded] = {}
    figures: list[Figure] = []
    for chosen in here:
        say(f"{chosen.name}: written and embedded")
        with (
            tempfile.TemporaryDirectory() as name,
            stored(Path(name), chosen.conversations(), model, kept) as stores,
        ):
            graded[chosen.name] = _graded(chosen, stores, systems())
            varied[chosen.name] = _graded(chosen, stores, variants())
            figures += _budgets(chosen, stores)
            figures += _unanswered(chosen, stores, graded[chosen.name][OURS])
            figures += _seconds(chosen, stores)
        if chosen.made is None:
            figures += _small_memories(chosen, kept, model)
        if chosen.made is None and chosen.kind != "passages":
            figures.append(_in_channels(chosen, kept / "channels", model))
    print(table_of(here, graded))
    print(categories(graded))
    print(bootstraps(graded))
    for name, kinds in (("texts", SETS), ("tables", TABLES)):
        answers = [a for each in kinds if each in here for a in graded[each.name][OURS]]
        if answers:
            print(reliability(name, answers))
    return [*_found(here, graded), *figures, *_kinds_left_out(here, varied)]


def embedder() -> EmbeddingSettings:
    """The model that the environment names, else the bundled one."""
    named = load_settings({})[0].embedding
    return BUNDLED if named.provider == "auto" else named


def shipped(name: str) -> dict[str, Any]:
    """The document of a bundled profile."""
    path = files("engramlog.projections.recall").joinpath("profiles", f"{name}.json")
    return msgspec.json.decode(path.read_bytes())


def systems() -> dict[str, Profile]:
    """The compared systems, by name; ours first."""
    ours = shipped(OURS)
    lexical, semantic, *others = ours["stages"]
    documents: dict[str, dict[str, Any]] = {
        OURS: ours,
        **{name: shipped(name) for name in ("stigmem", "abmind", "abmind-head", "stargraph")},
        BASELINE: _PLAIN | {"stages": [_BM25]},
        "meaning alone": _PLAIN | {"stages": [_MEANING]},
        "BM25 and meaning, same weight": _PLAIN | {"stages": [_BM25, _MEANING]},
        "default, lexical alone": ours | {"stages": [lexical]},
        "default, semantic alone": ours | {"stages": [semantic]},
        "without graph": _without_stage(ours, "graph"),
        "without dates": _without_stage(ours, "dates"),
        "without bridge": _without_stage(ours, "bridge"),
        "without subject": _without_stage(ours, "subject"),
        "without own meaning": ours
        | {"stages": [lexical, _parameters(semantic, own=None), *others]},
        "without overview": {key: v for key, v in ours.items() if key != "overview"},
        "without names": ours
        | {"stages": [lexical, _parameters(semantic, name_share=None), *others]},
        "without context": {key: v for key, v in ours.items() if key != "context"},
        "names as written": ours | {"context": ours["context"] | {"calls": 0}},
        "context unbounded": ours | {"context": ours["context"] | {"terms": None}},
        "without statement": _without_factor(ours, "statement"),
        "without substance": _without_factor(ours, "substance"),
        "without speaker": _without_factor(ours, "speaker"),
        "without MMR": ours | {"diversity": {"lambda": 1.0}},
    }
    return _parsed(documents)


def variants() -> dict[str, Profile]:
    """``default`` with other numbers, to choose from with one kind of questions left out."""
    ours = shipped(OURS)
    stages = ours["stages"]
    lexical, semantic, *others = stages
    context, own = ours["context"], semantic["parameters"]["own"]

    def weights(one: float, other: float) -> dict[str, Any]:
        return ours | {"stages": [lexical | {"weight": one}, semantic | {"weight": other}, *others]}

    return _parsed(
        {
            "as shipped": ours,
            "lexical heavier": weights(0.45, 0.45),
            "semantic heavier": weights(0.3, 0.6),
            "own meaning 0.2": ours
            | {"stages": [lexical, _parameters(semantic, own=own | {"share": 0.2}), *others]},
            "own meaning 0.6": ours
            | {"stages": [lexical, _parameters(semantic, own=own | {"share": 0.6}), *others]},
            "bridge 0.15": ours
            | {"stages": [e | {"weight": 0.15} if e["name"] == "bridge" else e for e in stages]},
            "names count 0.1": ours
            | {"stages": [lexical, _parameters(semantic, name_share=0.1), *others]},
            "names count 0.5": ours
            | {"stages": [lexical, _parameters(semantic, name_share=0.5), *others]},
            "BM25 saturates sooner": ours
            | {"stages": [_parameters(lexical, k1=0.6, b=0.6), semantic, *others]},
            "context bounded at 40": ours | {"context": context | {"terms": 40}},
            "context bounded at 160": ours | {"context": context | {"terms": 160}},
            "session 0.1": ours | {"context": context | {"session": 0.1}},
            "subject 0.15": ours
            | {"stages": [e | {"weight": 0.15} if e["name"] == "subject" else e for e in stages]},
            "machines count 0.6": _factor(ours, "speaker", machine=0.6),
            "machines count 0.9": _factor(ours, "speaker", machine=0.9),
            "questions fade from 20 to 40": _factor(
                ours, "statement", floor=0.5, whole_terms=20, gone_terms=40
            ),
            "more diverse": ours | {"diversity": ours["diversity"] | {"lambda": 0.75}},
        }
    )


def _parsed(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, Profile]:
    return {name: parse_profile({**made, "name": "tried"}) for name, made in documents.items()}


def _parameters(stage: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    return {**stage, "parameters": stage["parameters"] | changed}


def _factor(document: dict[str, Any], name: str, **parameters: Any) -> dict[str, Any]:
    factors = [
        {**each, "parameters": parameters} if each["name"] == name else each
        for each in document["factors"]
    ]
    return document | {"factors": factors}


def _without_factor(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document | {"factors": [e for e in document["factors"] if e["name"] != name]}


def _without_stage(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document | {"stages": [e for e in document["stages"] if e["name"] != name]}


def answered(store: Store, profile: Profile, question: Question, cut: int) -> Answered:
    """One question, and the share of its evidence before the cut."""
    request = RecallRequest(query=question.text, token_budget=PLENTY_TOKENS)
    answer = store.answer(profile, request)
    ranked = store.turns(answer)
    return Answered(
        found=found(ranked[:cut], question.evidence) if question.evidence else 0.0,
        first=float(bool(ranked) and ranked[0] in question.evidence),
        score=answer.results[0].score if ranked else 0.0,
        weak=answer.weak_evidence is True,
        answerable=1.0 if answer.answerable is None else answer.answerable,
        category=question.category,
    )


def _graded(chosen: QuestionSet, stores: Sequence[Store], compared: dict[str, Profile]) -> Graded:
    graded: Graded = {}
    for name, profile in compared.items():
        say(f"{chosen.name}: {name}")
        graded[name] = [
            answered(store, profile, question, chosen.cut)
            for store in stores
            for question in store.conversation.questions
        ]
    return graded


def _share(values: Sequence[float]) -> float:
    return 100.0 * float(np.mean(values)) if values else 0.0


def _found(sets: Sequence[QuestionSet], graded: Mapping[str, Graded]) -> list[Figure]:
    figures: list[Figure] = []
    for each in sets:
        of = {name: _share([a.found for a in found]) for name, found in graded[each.name].items()}
        measured = f"{each.name}, evidence in the top {each.cut}"
        against = f"{BASELINE}, {of[BASELINE]:.1f} %"
        figures.append(Figure(measured, of[OURS], "%", against, of[OURS] / of[BASELINE]))
    return figures


def _budgets(chosen: QuestionSet, stores: Sequence[Store]) -> list[Figure]:
    """Evidence within a budget of tokens, by the profile's own estimate."""
    compared = systems()
    figures: list[Figure] = []
    for budget in BUDGETS:
        of = {
            name: _share(
                [
                    found(store.ask(compared[name], question.text, budget), question.evidence)
                    for store in stores
                    for question in store.conversation.questions
                ]
            )
            for name in (OURS, BASELINE)
        }
        measured = f"{chosen.name}, evidence within {budget} tokens"
        against = f"{BASELINE}, {of[BASELINE]:.1f} %"
        figures.append(Figure(measured, of[OURS], "%", against, of[OURS] / of[BASELINE]))
    return figures


def _unanswered(
    chosen: QuestionSet, stores: Sequence[Store], known: Sequence[Answered]
) -> list[Figure]:
    """Whether ``answerable`` and ``weak_evidence`` detect questions without an answer."""
    if not chosen.unanswerable:
        return []
    profile = systems()[OURS]
    none = [
        answered(store, profile, question, chosen.cut)
        for store in stores
        for question in store.conversation.unanswerable
    ]
    known = [each for each in known if each.category != chosen.unanswerable]
    area = auc([each.answerable for each in known], [each.answerable for each in none])
    by_score = auc([each.score for each in known], [each.score for each in none])
    return [
        Figure(f"{chosen.name}, answer or none by answerable", area, "AUC", aim=">= 0.75"),
        Figure(f"{chosen.name}, answer or none by the best score", by_score, "AUC"),
        Figure(f"{chosen.name}, weak evidence, no answer", _share([a.weak for a in none]), "%"),
        Figure(f"{chosen.name}, weak evidence, an answer", _share([a.weak for a in known]), "%"),
    ]


def _small_memories(chosen: QuestionSet, kept: Path, model: EmbeddingSettings) -> list[Figure]:
    """What the best score and ``weak_evidence`` say where only a few facts compete."""
    profile = systems()[OURS]
    conversations = chosen.conversations()
    each = max(EXCERPTS_MIN, EXCERPTS // len(conversations))
    figures: list[Figure] = []
    for turns in EXCERPT_TURNS:
        say(f"{chosen.name}: excerpts of {turns} turns")
        answers: list[Answered] = []
        without: list[Answered] = []
        for excerpt in (e for of in conversations for e in excerpts(of, turns, each)):
            with (
                tempfile.TemporaryDirectory() as name,
                stored(Path(name), [excerpt], model, kept) as (store,),
            ):
                for to, questions in (
                    (answers, excerpt.questions),
                    (without, excerpt.unanswerable),
                ):
                    to += [answered(store, profile, asked, chosen.cut) for asked in questions]
        print(reliability(f"{chosen.name}, excerpts of {turns} turns", [*answers, *without]))
        measured = f"{chosen.name}, excerpts of {turns} turns, weak evidence"
        figures.append(Figure(f"{measured}, no answer", _share([a.weak for a in without]), "%"))
        figures.append(Figure(f"{measured}, an answer", _share([a.weak for a in answers]), "%"))
    return figures


def _in_channels(chosen: QuestionSet, kept: Path, model: EmbeddingSettings) -> Figure:
    """Evidence found where a session is an entity and the speakers are sources."""
    told = [msgspec.structs.replace(each, channels=True) for each in chosen.conversations()]
    every = systems()
    compared = {name: every[name] for name in (OURS, BASELINE)}
    with tempfile.TemporaryDirectory() as name, stored(Path(name), told, model, kept) as stores:
        graded = _graded(chosen, stores, compared)
    ours, theirs = (_share([a.found for a in graded[name]]) for name in compared)
    measured = f"{chosen.name} in channels, evidence in the top {chosen.cut}"
    return Figure(measured, ours, "%", f"{BASELINE}, {theirs:.1f} %", ours / theirs)


def _seconds(chosen: QuestionSet, stores: Sequence[Store]) -> list[Figure]:
    """Processor time of a recall with an embedded question."""
    profile = systems()[OURS]
    taken: list[float] = []
    for store in stores:
        for question in store.conversation.questions:
            store.ask(profile, question.text, 4096)
            began = process_time()
            store.ask(profile, question.text, 4096)
            taken.append(1000.0 * (process_time() - began))
    return [Figure(f"{chosen.name}, processor time, p50", percentile(taken, 0.5), "ms")]


def _kinds_left_out(sets: Sequence[QuestionSet], varied: Mapping[str, Graded]) -> list[Figure]:
    """Each set under the variant that is best on the other kinds."""
    figures: list[Figure] = []
    mean = {
        each.name: {name: _share([a.found for a in got]) for name, got in varied[each.name].items()}
        for each in sets
    }
    for each in sets:
        others = [other.name for other in sets if other.kind != each.kind]
        if not others:
            continue
        names = list(mean[each.name])
        best = max(names, key=lambda name: sum(mean[other][name] for other in others))
        measured = f"{each.name}, its kind left out ({best})"
        figures.append(Figure(measured, mean[each.name][best], "%"))
    return figures
