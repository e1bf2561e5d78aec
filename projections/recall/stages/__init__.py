"""Stages by name: what a profile may put in its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from engramlog.projections.recall.stages import (
    dates,
    entity_edges,
    fuzzy,
    graph,
    lexical,
    semantic,
    simhash,
    summaries,
)
from engramlog.projections.recall.stages.candidates import Candidates

if TYPE_CHECKING:
    from engramlog.projections.recall.request_facts import Survey


class Stage(Struct, frozen=True):
    """``run(survey, parameters, earlier)`` proposes candidates.

    A stage that ``builds_on`` others gets in ``earlier`` the gated candidates of those that
    the profile lists before it, and so waits for them; all others run side by side. What a
    stage finds that ``tells`` is like the question by its own threshold, and so evidence.
    ``judges`` says by the parameters whether a stage tells strong hits from weak ones.
    """

    parameters: type[Struct]
    run: Callable[[Survey, Any, Mapping[str, Candidates]], Candidates]
    builds_on: bool = False
    tells: bool = False
    judges: Callable[[Any], bool] = lambda _parameters: False


STAGES: dict[str, Stage] = {
    "lexical": Stage(lexical.Parameters, lexical.run),
    "semantic": Stage(semantic.Parameters, semantic.run, tells=True),
    "fuzzy": Stage(fuzzy.Parameters, fuzzy.run, judges=fuzzy.judges),
    "simhash": Stage(simhash.Parameters, simhash.run, tells=True),
    "graph": Stage(graph.Parameters, graph.run, builds_on=True),
    "dates": Stage(dates.Parameters, dates.run, builds_on=True),
    "summaries": Stage(summaries.Parameters, summaries.run),
    "entity_edges": Stage(entity_edges.Parameters, entity_edges.run),
}
"""The name is also the weight key and the key in a score's breakdown."""
