"""Runs a profile's stages: in parallel unless they depend on each other, each with a deadline, and
none able to fail the recall.

Handing a stage to another thread costs more processor time than a brief stage over few facts, so
the calling thread runs these while it waits for the others.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Struct

from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.recall.profile import Filled, StageChoice
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages import STAGES
from engramlog.projections.recall.stages.candidates import (
    Candidates,
    DeadlinePassed,
    StageDisabled,
    StageOutcome,
    Status,
)

BRIEF_FACTS_MAX = 250_000
"""Over more facts, brief stages too get a thread of their own, and stop at their deadline."""
BRIEF_DEADLINE_MS_MIN = 1_000
"""With a shorter deadline, they always do."""
LATE_SECONDS_MAX = 30.0
"""How long to wait for one late stage if the others found nothing."""

_log = logging.getLogger(__name__)
_STATUS_OF: dict[type[Exception], Status] = {
    StageDisabled: "disabled",
    DeadlinePassed: "deadline",
}
Stopwatch = Callable[[], float]
"""Seconds, from any start."""


class _Ran(Struct, frozen=True):
    """The outcome of one stage; ``hits`` is None if it did not complete."""

    outcome: StageOutcome
    hits: Candidates | None = None


class _Begun(Struct, frozen=True):
    """A stage that has to end. Without a ``future``, the calling thread runs it."""

    run: Callable[[], _Ran]
    future: Future[_Ran] | None
    since: float


def run_stages(
    surveyed: Survey,
    choices: tuple[StageChoice, ...],
    weights: Mapping[str, float],
    stopwatch: Stopwatch,
    executor: Executor | None,
) -> tuple[dict[str, Candidates], tuple[StageOutcome, ...]]:
    """Every stage's gated candidates, and every stage's outcome, both in the profile's order.
    ``weights``: by stage name. ``executor``: runs stages in parallel, each up to its deadline;
    brief ones over few facts run in this thread. None runs one after the other in this thread, to
    the end."""
    asked = surveyed.request.stages
    wanted = wanted_stages(choices, weights, asked)
    ran: dict[str, _Ran] = {}
    running: dict[str, _Begun] = {}
    late: dict[str, Future[_Ran]] = {}
    for choice in choices:
        if choice.name not in wanted:
            requested = is_requested(choice, asked)
            status: Status = "disabled" if requested else "not-requested"
            detail = "weighs nothing" if requested else ""
            ran[choice.name] = _Ran(_not_run(choice, status, detail))
            continue
        filled = choice.skipped_after
        if STAGES[choice.name].builds_on or filled is not None:
            late |= _collect(running, ran, choices, stopwatch)
        if filled is not None and _has_found_enough(surveyed, filled, ran):
            labels = {each.name: each.label or each.name for each in choices}
            detail = f"{labels[filled.stage]} filled the limit"
            ran[choice.name] = _Ran(_not_run(choice, "skipped", detail, filled.stage))
            continue
        earlier = {name: each.hits for name, each in ran.items() if each.hits is not None}
        if executor is not None and choice.name == "semantic":
            _start_model(surveyed, choice)
        work = partial(_run, surveyed, choice, earlier, stopwatch)
        if executor is None:
            ran[choice.name] = work()
        else:
            future = None if _is_brief(surveyed, choice) else executor.submit(work)
            running[choice.name] = _Begun(work, future, stopwatch())
    late |= _collect(running, ran, choices, stopwatch)
    if not any(each.outcome.hits for each in ran.values()):
        _wait_for_one(late, ran)
    for future in late.values():
        future.cancel()
    hits = {c.name: found for c in choices if (found := ran[c.name].hits) is not None}
    return hits, tuple(ran[choice.name].outcome for choice in choices)


def _start_model(surveyed: Survey, choice: StageChoice) -> None:
    """Wait until a model that this machine loads is there, and the stored vectors: the first
    question would miss its deadline on a slow machine, or compare few facts. Not for a profile that
    waits little."""
    if surveyed.semantics is not None and choice.deadline_ms >= BRIEF_DEADLINE_MS_MIN:
        surveyed.semantics.start(choice.deadline_ms / 1000)


def _is_brief(surveyed: Survey, choice: StageChoice) -> bool:
    few = surveyed.view.count <= BRIEF_FACTS_MAX
    return few and STAGES[choice.name].brief and choice.deadline_ms >= BRIEF_DEADLINE_MS_MIN


def wanted_stages(
    choices: tuple[StageChoice, ...],
    weights: Mapping[str, float],
    asked: Collection[str] | None,
) -> frozenset[str]:
    """The requested stages that run: those with a weight, or all if none has one. Where only stages
    that build on others have a weight, the others run too. ``asked`` are names or labels, None for
    all."""
    requested = frozenset(choice.name for choice in choices if is_requested(choice, asked))
    weighty = frozenset(name for name in requested if weights[name] > 0) or requested
    if all(STAGES[name].builds_on for name in weighty):
        weighty |= frozenset(name for name in requested if not STAGES[name].builds_on)
    return weighty


def is_requested(choice: StageChoice, asked: Collection[str] | None) -> bool:
    """Whether a request names a stage, or the stage always runs."""
    return asked is None or choice.always or choice.name in asked or choice.label in asked


def _not_run(
    choice: StageChoice, status: Status, detail: str, after: str | None = None
) -> StageOutcome:
    return StageOutcome(choice.name, status, 0, 0.0, detail, choice.label, after)


def _has_found_enough(surveyed: Survey, filled: Filled, ran: Mapping[str, _Ran]) -> bool:
    hits = ran[filled.stage].hits
    wanted = surveyed.limit if filled.hits == "limit" else filled.hits
    return hits is not None and len(hits.slots) >= wanted


def _collect(
    running: dict[str, _Begun],
    ran: dict[str, _Ran],
    choices: tuple[StageChoice, ...],
    stopwatch: Stopwatch,
) -> dict[str, Future[_Ran]]:
    """Run this thread's, wait for the others up to their deadlines; returns the late ones."""
    late: dict[str, Future[_Ran]] = {}
    deadlines = {choice.name: choice.deadline_ms / 1000.0 for choice in choices}
    labels = {choice.name: choice.label for choice in choices}
    here = {name: begun.run() for name, begun in running.items() if begun.future is None}
    for name, begun in running.items():
        if begun.future is None:
            ran[name] = here[name]
            continue
        left = begun.since + deadlines[name] - stopwatch()
        try:
            ran[name] = begun.future.result(max(left, 0.0))
        except TimeoutError:
            late[name] = begun.future
            elapsed_ms = (stopwatch() - begun.since) * 1000.0
            detail = f"not done after {deadlines[name] * 1000:.0f} ms"
            ran[name] = _Ran(StageOutcome(name, "deadline", 0, elapsed_ms, detail, labels[name]))
    running.clear()
    return late


def _wait_for_one(late: Mapping[str, Future[_Ran]], ran: dict[str, _Ran]) -> None:
    """Take the first late stage that finds something. Stages are late on a busy machine, or while a
    model starts; a late answer is better than an empty one."""
    for name, future in late.items():
        with suppress(TimeoutError):
            found = future.result(LATE_SECONDS_MAX)
            if found.hits is not None:
                ran[name] = found
            if found.outcome.hits:
                return


def _run(
    surveyed: Survey, choice: StageChoice, earlier: Mapping[str, Candidates], stopwatch: Stopwatch
) -> _Ran:
    """Run one stage. A failing stage fails alone: the outcome has the reason."""
    started = stopwatch()
    hits: Candidates | None = None
    status: Status = "completed"
    try:
        if choice.without:
            surveyed = surveyed.without(choice.without)
        proposed = STAGES[choice.name].run(surveyed, choice.parameters, earlier)
        count = choice.candidates
        if choice.per_result is not None:
            count = min(count, choice.per_result * surveyed.limit)
        hits = _admitted(surveyed, proposed, count)
        hits = msgspec.structs.replace(hits, builds_on=STAGES[choice.name].builds_on)
        detail = proposed.detail
    except Exception as fault:
        status = _STATUS_OF.get(type(fault), "failed")
        detail = str(fault) or type(fault).__name__
        if isinstance(fault, EmbeddingError):
            _log.warning("recall stage %s failed: %s", choice.name, fault)
        elif status == "failed":
            _log.exception("recall stage %s failed", choice.name)
    count = 0 if hits is None else len(hits.slots)
    elapsed_ms = (stopwatch() - started) * 1000.0
    outcome = StageOutcome(choice.name, status, count, elapsed_ms, detail, choice.label)
    return _Ran(outcome, hits)


def _admitted(surveyed: Survey, candidates: Candidates, count: int) -> Candidates:
    """The best ``count`` candidates that pass the gate. The gate judges only as many as needed:
    most hits of a common word are never judged."""
    asked = count
    while True:
        leading = candidates.leading(asked)
        admitted = surveyed.admits(candidates.slots[leading])
        if len(admitted) >= count or len(leading) == len(candidates.slots):
            break
        asked = 4 * len(leading)
    if len(admitted) == len(candidates.slots) <= count:
        return candidates
    return candidates.only(candidates.slots.searchsorted(admitted)).best(count)
