"""Stages by name, for profiles."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages import (
    bridge,
    dates,
    entity_edges,
    fuzzy,
    graph,
    lexical,
    semantic,
    simhash,
    subject,
    summaries,
)
from engramlog.projections.recall.stages.candidates import Candidates


class Stage(Struct, frozen=True):
    """``run(survey, parameters, earlier)`` proposes candidates.

    A stage that ``builds_on`` others gets in ``earlier`` the gated candidates of the stages listed
    before it, and so waits for them; all others run in parallel. If a stage ``tells``, its hits are
    similar to the question by its own threshold, and so are evidence. ``judges``, given the
    parameters, says whether a stage separates strong hits from weak ones. A ``brief`` stage is
    fast and waits for no other process: over few facts, the recall runs it itself.
    """

    parameters: type[Struct]
    run: Callable[[Survey, Any, Mapping[str, Candidates]], Candidates]
    builds_on: bool = False
    tells: bool = False
    brief: bool = False
    judges: Callable[[Any], bool] = lambda _parameters: False


STAGES: dict[str, Stage] = {
    "lexical": Stage(lexical.Parameters, lexical.run, brief=True),
    "semantic": Stage(semantic.Parameters, semantic.run, tells=True),
    "fuzzy": Stage(fuzzy.Parameters, fuzzy.run, judges=fuzzy.judges),
    "simhash": Stage(simhash.Parameters, simhash.run, tells=True),
    "graph": Stage(graph.Parameters, graph.run, builds_on=True, brief=True),
    "dates": Stage(dates.Parameters, dates.run, builds_on=True, brief=True),
    "bridge": Stage(bridge.Parameters, bridge.run, builds_on=True, brief=True),
    "subject": Stage(subject.Parameters, subject.run, builds_on=True, brief=True),
    "summaries": Stage(summaries.Parameters, summaries.run),
    "entity_edges": Stage(entity_edges.Parameters, entity_edges.run),
}
"""The name is also the weight key and the key in a score's breakdown."""
