"""A stage that misses its deadline costs an answer its share, never the whole answer."""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Event, current_thread, main_thread
from typing import Any

import msgspec
import numpy as np
import pytest

from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages import STAGES, graph, lexical, running
from engramlog.projections.recall.stages.candidates import Candidates
from tests.worlds.recall_world import World, reader, user

WAIT_SECONDS_MAX = 20.0
DEADLINES_MS = {"lexical": 1, "semantic": 1, "graph": 60_000}

Run = Callable[[Survey, Any, Mapping[str, Candidates]], Candidates]


@pytest.fixture
def threads() -> Generator[Executor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def found_late(monkeypatch: pytest.MonkeyPatch, threads: Executor, **late: Run) -> list[str]:
    """Facts recalled for "ledger" if stages start only after the graph, which builds on their hits,
    has ended without any."""
    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    built = Event()

    def last(run: Run) -> Run:
        def waiting(survey: Survey, parameters: Any, earlier: Mapping[str, Any]) -> Candidates:
            assert built.wait(WAIT_SECONDS_MAX)
            return run(survey, parameters, earlier)

        return waiting

    def first(survey: Survey, parameters: Any, earlier: Mapping[str, Candidates]) -> Candidates:
        assert not earlier
        found = graph.run(survey, parameters, earlier)
        built.set()
        return found

    for name, run in {**{name: last(run) for name, run in late.items()}, "graph": first}.items():
        monkeypatch.setitem(STAGES, name, msgspec.structs.replace(STAGES[name], run=run))
    profile = load_profile("stigmem")
    stages = tuple(
        msgspec.structs.replace(each, deadline_ms=DEADLINES_MS[each.name])
        for each in profile.stages
    )
    answer = recall(
        world.view(),
        world.rows,
        RecallRequest(query="ledger"),
        msgspec.structs.replace(profile, stages=stages),
        reader(),
        world.moment(),
        executor=threads,
    )
    return [each.row.id for each in answer.results]


def words(survey: Survey, _parameters: Any, earlier: Mapping[str, Candidates]) -> Candidates:
    return lexical.run(survey, lexical.Parameters(), earlier)


def nothing(survey: Survey, _parameters: Any, earlier: Mapping[str, Candidates]) -> Candidates:
    return words(survey, None, earlier).only(np.empty(0, dtype=np.int64))


def test_a_late_stage_is_waited_for_where_the_others_found_nothing(
    monkeypatch: pytest.MonkeyPatch, threads: Executor
) -> None:
    assert found_late(monkeypatch, threads, lexical=words) == ["fact-0"]


def test_a_late_stage_that_finds_nothing_leaves_the_word_to_the_next(
    monkeypatch: pytest.MonkeyPatch, threads: Executor
) -> None:
    assert found_late(monkeypatch, threads, lexical=nothing, semantic=words) == ["fact-0"]


def test_brief_stages_over_few_facts_run_in_the_recalls_own_thread(
    monkeypatch: pytest.MonkeyPatch, threads: Executor
) -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    ran: dict[str, bool] = {}

    def noting(name: str, run: Run) -> Run:
        def noted(survey: Survey, parameters: Any, earlier: Mapping[str, Any]) -> Candidates:
            ran[name] = current_thread() is main_thread()
            return run(survey, parameters, earlier)

        return noted

    profile = load_profile("stigmem")
    for name in ("lexical", "semantic", "graph"):
        stage = msgspec.structs.replace(STAGES[name], run=noting(name, STAGES[name].run))
        monkeypatch.setitem(STAGES, name, stage)

    def ask() -> None:
        recall(
            world.view(), world.rows, RecallRequest(query="ledger"), profile,
            reader(), world.moment(), executor=threads,
        )  # fmt: skip

    ask()
    assert ran == {"lexical": True, "semantic": False, "graph": True}
    monkeypatch.setattr(running, "BRIEF_FACTS_MAX", 0)
    ask()
    assert ran == {"lexical": False, "semantic": False, "graph": False}
