"""Stages by name: what a profile may put in its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from projections.recall.candidates import Candidates
from projections.recall.stages import graph, lexical, semantic

if TYPE_CHECKING:
    from projections.recall.survey import Survey


class Stage(Struct, frozen=True):
    """``run(survey, parameters, earlier)`` proposes candidates; ``earlier`` holds those of
    the stages that the profile lists before this one, gated."""

    parameters: type[Struct]
    run: Callable[[Survey, Any, Mapping[str, Candidates]], Candidates]


STAGES: dict[str, Stage] = {
    "lexical": Stage(lexical.Parameters, lexical.run),
    "semantic": Stage(semantic.Parameters, semantic.run),
    "graph": Stage(graph.Parameters, graph.run),
}
"""The name is also the weight key and the key in a score's breakdown."""
