"""Running a profile's stages: side by side where they do not need each other, each with a
deadline, and none able to fail the recall."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from projections.embedding.errors import EmbeddingError
from projections.recall.candidates import (
    Candidates,
    DeadlinePassed,
    StageDisabled,
    StageOutcome,
    Status,
)
from projections.recall.stages import STAGES
from projections.recall.survey import Survey

if TYPE_CHECKING:
    from projections.recall.profile import StageChoice

_log = logging.getLogger(__name__)
_STATUS_OF: dict[type[Exception], Status] = {
    StageDisabled: "disabled",
    DeadlinePassed: "deadline",
}
Stopwatch = Callable[[], float]
"""Seconds, from any beginning."""


class _Ran(Struct, frozen=True):
    """What came of one stage; ``hits`` is None where it did not complete."""

    outcome: StageOutcome
    hits: Candidates | None = None


def run_stages(
    surveyed: Survey,
    choices: tuple[StageChoice, ...],
    weights: Mapping[str, float],
    stopwatch: Stopwatch,
    executor: Executor | None,
) -> tuple[dict[str, Candidates], tuple[StageOutcome, ...]]:
    """Every stage's gated candidates, and how each stage went, both in the profile's order.

    Args:
        weights: by stage name.
        executor: where stages run side by side, each for at most its deadline; None runs one
            after the other in this thread, to the end.
    """
    wanted = wanted_stages(choices, weights)
    ran: dict[str, _Ran] = {}
    running: dict[str, tuple[Future[_Ran], float]] = {}
    for choice in choices:
        if choice.name not in wanted:
            ran[choice.name] = _Ran(StageOutcome(choice.name, "disabled", 0, 0.0, "weighs nothing"))
            continue
        if STAGES[choice.name].builds_on:
            _collect(running, ran, choices, stopwatch)
        earlier = {name: each.hits for name, each in ran.items() if each.hits is not None}
        if executor is None:
            ran[choice.name] = _run(surveyed, choice, earlier, stopwatch)
        else:
            begun = executor.submit(_run, surveyed, choice, earlier, stopwatch)
            running[choice.name] = (begun, stopwatch())
    _collect(running, ran, choices, stopwatch)
    hits = {c.name: found for c in choices if (found := ran[c.name].hits) is not None}
    return hits, tuple(ran[choice.name].outcome for choice in choices)


def wanted_stages(choices: tuple[StageChoice, ...], weights: Mapping[str, float]) -> frozenset[str]:
    """The stages that are run: those that weigh something, or all where none does."""
    weighty = frozenset(choice.name for choice in choices if weights[choice.name] > 0)
    return weighty or frozenset(choice.name for choice in choices)


def _collect(
    running: dict[str, tuple[Future[_Ran], float]],
    ran: dict[str, _Ran],
    choices: tuple[StageChoice, ...],
    stopwatch: Stopwatch,
) -> None:
    """Wait for what runs, no stage longer than its deadline; what comes later is dropped."""
    deadlines = {choice.name: choice.deadline_ms / 1000.0 for choice in choices}
    for name, (future, begun) in running.items():
        left = begun + deadlines[name] - stopwatch()
        try:
            ran[name] = future.result(max(left, 0.0))
        except TimeoutError:
            future.cancel()
            elapsed_ms = (stopwatch() - begun) * 1000.0
            detail = f"not done after {deadlines[name] * 1000:.0f} ms"
            ran[name] = _Ran(StageOutcome(name, "deadline", 0, elapsed_ms, detail))
    running.clear()


def _run(
    surveyed: Survey, choice: StageChoice, earlier: Mapping[str, Candidates], stopwatch: Stopwatch
) -> _Ran:
    started = stopwatch()
    hits: Candidates | None = None
    status: Status = "completed"
    try:
        found = STAGES[choice.name].run(surveyed, choice.parameters, earlier)
        hits = _admitted(surveyed, found, choice.candidates)
        detail = found.detail
    except Exception as fault:
        status = _STATUS_OF.get(type(fault), "failed")
        detail = str(fault) or type(fault).__name__
        if isinstance(fault, EmbeddingError):
            _log.warning("recall stage %s failed: %s", choice.name, fault)
        elif status == "failed":
            _log.exception("recall stage %s failed", choice.name)
    count = 0 if hits is None else len(hits.slots)
    elapsed_ms = (stopwatch() - started) * 1000.0
    return _Ran(StageOutcome(choice.name, status, count, elapsed_ms, detail), hits)


def _admitted(surveyed: Survey, found: Candidates, count: int) -> Candidates:
    """The best ``count`` of those that pass the gate, which is asked of no more than it takes:
    most of what a common word finds is never looked at."""
    asked = count
    while True:
        leading = found.leading(asked)
        admitted = surveyed.admits(found.slots[leading])
        if len(admitted) >= count or len(leading) == len(found.slots):
            break
        asked = 4 * len(leading)
    if len(admitted) == len(found.slots) <= count:
        return found
    return found.only(found.slots.searchsorted(np.sort(admitted[:count])))
