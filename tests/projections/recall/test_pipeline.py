import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.moment import parse_instant
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.conversation.layouts import SAID_MIN
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import Profile, load_profile, parse_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages import STAGES, Stage, lexical
from engramlog.projections.recall.stages.candidates import Candidates, DeadlinePassed
from tests.worlds.recall_world import World, reader, user

OTHER = "agent:other"
"""Not the conversation of the world's other facts."""


def ask(
    world: World,
    query: str,
    *scopes: str,
    profile: str | Profile = "default",
    valid_at_us: int | None = None,
    **more: Any,
) -> RecallAnswer:
    moment = msgspec.structs.replace(world.moment(), valid_at_us=valid_at_us)
    chosen = load_profile(profile) if isinstance(profile, str) else profile
    return recall(
        world.view(),
        world.rows,
        RecallRequest(query=query, **more),
        chosen,
        reader(*scopes),
        moment,
        slots_of_cid=world.slots_of_cid,
        stopwatch=lambda: 0.0,
    )


def ids(answer: RecallAnswer) -> list[str]:
    return [each.row.id for each in answer.results]


def test_the_seeds_score_of_one_fact() -> None:
    world = World()
    slot = world.fact(
        user("ann"), "memory:note", "ledger", confidence=0.8, source="agent:half", age_days=30
    )
    world.fact(user("ben"), "memory:note", "other")
    world.trust("agent:half", 0.5)
    world.accessed(slot, 3)
    answer = ask(world, "ledger", profile="stigmem", explain=True)
    (only,) = answer.results
    # lexical is the best of its stage: 1; graph finds no edge: 0. Weights 0.3 and 0.2 become
    # 0.6 and 0.4, so raw = 0.6. recency exp(-0.3) = 0.740818, confidence 0.8, access 1 (the
    # most returned of the set), contradiction 1, garden 1, trust 0.5 + 0.5 * 0.5 = 0.75:
    # 0.6 * 0.740818 * 0.8 * 0.75 = 0.266695
    assert only.score == pytest.approx(0.6 * math.exp(-0.3) * 0.8 * 0.75, abs=1e-9)
    assert only.score == pytest.approx(0.266695, abs=1e-6)
    assert answer.weights == pytest.approx({"lexical": 0.6, "graph": 0.4})
    assert only.effective_confidence == pytest.approx(0.4)
    assert msgspec.structs.asdict(only.breakdown) == pytest.approx(
        {
            "lexical": 1.0, "semantic": 0.0, "graph": 0.0, "source_trust": 0.5,
            "recency": math.exp(-0.3), "weighted_total": 0.6 * math.exp(-0.3) * 0.8 * 0.75,
            "relevance": 0.6, "confidence_factor": 0.8, "trust_factor": 0.75,
            "other_factors": math.exp(-0.3), "scale": 1.0,
        }
    )  # fmt: skip
    assert only.explain is not None
    assert only.explain["factors"]["source_trust"] == 0.75
    assert only.explain["stages"]["lexical"]["weight"] == pytest.approx(0.6)
    assert only.why == ("lexical: holds ledger",)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("green tea", "black tea", "tea with Ben", "a cup?", "ledger")),
            st.sampled_from((0.2, 0.5, 1.0)),
            st.sampled_from((0.0, 1.0, 400.0)),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from((0.1, 0.5, 1.0)),
    st.sampled_from(("default", "stigmem", "stargraph", "abmind", "abmind-head")),
)
def test_the_numbers_of_every_score_multiply_out(
    facts: list[tuple[str, float, float, bool]], trust: float, profile: str
) -> None:
    world = World()
    for number, (text, confidence, age_days, doubtful) in enumerate(facts):
        slot = world.fact(
            user(f"u{number % 2}"),
            "memory:note",
            text,
            confidence=confidence,
            age_days=age_days,
            source=OTHER if doubtful else "agent:tester",
        )
        world.accessed(slot, number)
    world.trust(OTHER, trust)
    answer = ask(world, "green tea", profile=profile, min_confidence=0.0, include_low_trust=True)
    for each in answer.results:
        parts = each.breakdown
        product = parts.relevance * parts.confidence_factor * parts.trust_factor
        assert product * parts.other_factors == pytest.approx(parts.weighted_total, abs=1e-8)
        assert parts.weighted_total * parts.scale == pytest.approx(each.score, abs=1e-8)
        if profile in ("default", "stigmem"):
            floor = 0.4 if profile == "default" else 0.0
            assert parts.confidence_factor == pytest.approx(floor + (1 - floor) * each.confidence)
            assert parts.trust_factor == pytest.approx(0.5 + 0.5 * each.source_trust)


def test_an_answer_has_its_stated_cost() -> None:
    world = World()
    for n in range(5):
        world.fact(user(f"u{n}"), "memory:note", f"ledger {n}")
    answer = ask(world, "ledger")
    assert answer.tokens_used == sum(each.token_estimate for each in answer.results) == 5 * 42
    assert (answer.total_scored, answer.truncated) == (5, False)


def test_a_tiny_budget_gives_an_empty_truncated_answer() -> None:
    world = World()
    world.fact(user("ann"), "memory:note", "ledger")
    answer = ask(world, "ledger", token_budget=0)
    assert (answer.results, answer.tokens_used, answer.total_scored) == ((), 0, 1)
    assert answer.truncated
    nothing = ask(world, "zebra", token_budget=0)
    assert (nothing.total_scored, nothing.truncated) == (0, False)


def test_limit_and_budget_truncate() -> None:
    world = World()
    for n in range(5):
        world.fact(user(f"u{n}"), "memory:note", f"ledger {n}")  # 40 + ceil(8 / 4) = 42 tokens
    assert len(ask(world, "ledger", limit=2).results) == 2
    assert ask(world, "ledger", limit=2).truncated
    assert ask(world, "ledger", token_budget=3 * 42 + 41).tokens_used == 3 * 42


def test_the_profile_decides_whether_smaller_facts_fill_the_budget() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger ledger ledger")  # 45 tokens
    world.fact(user("b"), "memory:note", "ledger " + "x" * 400)  # 142
    world.fact(user("c"), "memory:note", "note ledger " + " ".join("abcdefgh"))  # 47
    budget = 100
    spent = {
        skips_max: ask(world, "ledger", token_budget=budget, profile=packing(skips_max))
        for skips_max in (0, 5)
    }
    assert ids(spent[0]) == ["fact-0"]
    assert ids(spent[5]) == ["fact-0", "fact-2"]


def packing(skips_max: int) -> Profile:
    return parse_profile(
        {
            "name": "tried",
            "description": "",
            "stages": [{"name": "lexical", "weight": 1.0}],
            "diversity": {"lambda": 1.0},
            "packing": {"skips_max": skips_max},
        }
    )


def test_facts_of_little_effective_confidence_are_kept_out_unless_asked_for() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger", source="agent:shady")
    world.fact(user("b"), "memory:note", "ledger", confidence=0.3)
    world.trust("agent:shady", 0.15)
    assert ids(ask(world, "ledger")) == ["fact-1"]
    assert set(ids(ask(world, "ledger", include_low_trust=True))) == {"fact-0", "fact-1"}
    assert ids(ask(world, "ledger", include_low_trust=True, min_confidence=0.16)) == ["fact-1"]
    assert ids(ask(world, "ledger", min_confidence=0.31)) == []


def test_contradicted_facts_weigh_less_and_leave_only_on_request() -> None:
    world = World()
    world.fact(user("a"), "memory:role", "ledger keeper")
    world.fact(user("a"), "memory:role", "ledger writer")
    world.fact(user("b"), "memory:role", "ledger reader")
    answer = ask(world, "ledger", profile="stigmem")
    assert {each.row.id: each.contradicted for each in answer.results} == {
        "fact-0": True, "fact-1": True, "fact-2": False,
    }  # fmt: skip
    scores = {each.row.id: each.score for each in answer.results}
    # All else is equal, so the contradicted ones have 0.7 of the other's score.
    assert scores["fact-0"] == pytest.approx(0.7 * scores["fact-2"], abs=1e-9)
    assert ids(ask(world, "ledger", include_contradicted=False)) == ["fact-2"]


def test_a_disputed_fact_that_answers_stands_above_sure_ones_that_do_not() -> None:
    world = World()
    venus = "stigmem://t/body/venus"
    for relation, value in (("orbits", "sun"), ("moon-count", "none"), ("surface", "hot, dry")):
        world.fact(venus, relation, value, source=f"agent:{relation}")
    world.fact(venus, "phosphine-in-clouds", "yes", confidence=0.5, source=OTHER)
    world.fact(venus, "phosphine-in-clouds", "no", confidence=0.6)
    question = "phosphine in the clouds of venus"
    assert ids(ask(world, question))[0] in {"fact-3", "fact-4"}


def weights_of_contradiction(world: World, query: str, **more: Any) -> dict[str, float]:
    answer = ask(world, query, explain=True, **more)
    return {
        each.row.id: each.explain["factors"]["contradiction"]
        for each in answer.results
        if each.explain is not None
    }


def test_a_value_that_its_own_source_replaced_ranks_behind_the_newer() -> None:
    world = World()
    who, relation = user("a"), "memory:town"
    world.fact(who, relation, "ledger Graz", age_days=5)
    world.fact(who, relation, "ledger Linz", age_days=4)
    world.fact(who, relation, "ledger Graz", age_days=3, confidence=0.9)
    world.fact(who, relation, "ledger Wels", age_days=9, source=OTHER)
    world.fact(who, relation, "ledger Rome", age_days=1, valid_from="2099-01-01T00:00:00Z")
    # Linz alone was replaced: Graz holds again, Wels is what another says, Rome is yet to come.
    assert weights_of_contradiction(world, "ledger") == pytest.approx(
        {"fact-0": 0.85, "fact-1": 0.85 * 0.8, "fact-2": 0.85, "fact-3": 0.85, "fact-4": 0.85}
    )
    assert ids(ask(world, "ledger"))[0] != "fact-1"
    in_2100 = parse_instant("2100-01-01T00:00:00Z")
    assert weights_of_contradiction(world, "ledger", valid_at_us=in_2100) == pytest.approx(
        {f"fact-{number}": 0.85 * 0.8 for number in range(3)} | {"fact-3": 0.85, "fact-4": 0.85}
    )


def test_the_last_turn_of_a_discussion_replaces_none() -> None:
    world = World()
    for number in range(2 * SAID_MIN):
        world.fact(user("ann"), "chat:turn", f"I keep a ledger of kind {number}", source="s:1")
    assert set(weights_of_contradiction(world, "which ledger?").values()) == {1.0}


def test_bookkeeping_and_retractions_never_surface() -> None:
    world = World()
    world.fact(user("a"), "stigmem:conflict:between", "ledger")
    world.fact(user("b"), "memory:note", "ledger", confidence=0.0)
    gone = world.fact(user("c"), "memory:note", "ledger")
    world.retract(gone)
    answer = ask(world, "ledger", include_low_trust=True, min_confidence=0.0)
    assert (ids(answer), answer.total_scored) == ([], 0)


def test_filters_leave_only_the_relation_and_source_named() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    world.fact(user("b"), "memory:task", "ledger", source="agent:other")
    assert ids(ask(world, "ledger", relation="memory:task")) == ["fact-1"]
    assert ids(ask(world, "ledger", source="agent:other")) == ["fact-1"]
    assert ids(ask(world, "ledger", relation="memory:absent")) == []
    assert ids(ask(world, "ledger", "company", "team", scopes=frozenset({"team"}))) == []


def test_an_entity_centric_question_scores_every_fact_of_the_entity() -> None:
    world = World()
    for n in range(4):
        world.fact(user("ann"), "memory:note", f"entry {n}")
    world.ref(user("ann"), "rel:knows", user("ben"))
    world.fact(user("ben"), "memory:note", "ledger")
    world.fact(user("eve"), "memory:note", "ledger ledger")
    for depth in (0, 1):
        answer = ask(world, "ledger", entity=user("ann"), depth=depth)
        own = [each for each in answer.results if each.row.entity == user("ann")]
        assert len(own) == 5
        assert all(each.row.entity != user("eve") for each in answer.results)
        assert any(each.row.entity == user("ben") for each in answer.results) == (depth > 0)
        scores = [each.score for each in answer.results]
        assert scores == sorted(scores, reverse=True)
    unknown = ask(world, "ledger", entity=user("nobody"))
    assert (unknown.results, unknown.total_scored) == ((), 0)


def test_parents_of_derived_facts_come_along_where_they_fit() -> None:
    world = World()
    parent = "ab" * 32
    world.fact(user("a"), "memory:note", "raw reading", cid=f"sha256:{parent}", name="parent")
    world.fact(user("b"), "memory:note", "ledger", parents=[parent], name="child", source=OTHER)
    answer = ask(world, "ledger")
    assert ids(answer) == ["child", "parent"]
    assert answer.results[1].provenance_of == "child"
    assert answer.results[1].why == ("parent of child",)
    # 40 + ceil(6 / 4) = 42 for the child, 40 + ceil(11 / 4) = 43 for the parent
    assert ids(ask(world, "ledger", token_budget=84)) == ["child"]
    assert ids(ask(world, "ledger", token_budget=85)) == ["child", "parent"]
    assert ids(ask(world, "ledger", limit=1)) == ["child"]


def test_a_parent_of_many_facts_is_looked_up_once() -> None:
    """Forty facts with the same thousand parents would take seconds."""
    world = World()
    parents = [f"{n:02x}" * 32 for n in range(4)]
    for n, parent in enumerate(parents):
        world.fact(user(f"p{n}"), "memory:note", "raw reading", cid=f"sha256:{parent}")
    for n in range(3):
        world.fact(user(f"c{n}"), "memory:note", "ledger", parents=parents, source=OTHER)
    asked: list[str] = []
    looked_up = world.slots_of_cid
    world.slots_of_cid = lambda cid: asked.append(cid) or looked_up(cid)
    assert len(ids(ask(world, "ledger"))) == 7
    assert asked == [f"sha256:{parent}" for parent in parents]
    asked.clear()
    assert len(ids(ask(world, "ledger", limit=4))) == 4
    assert asked == [f"sha256:{parents[0]}"], "then the answer is full"


def test_an_unreadable_parent_is_absent() -> None:
    world = World()
    parent = "cd" * 32
    world.fact(user("a"), "memory:note", "raw", cid=f"sha256:{parent}", scope="team")
    world.fact(user("b"), "memory:note", "ledger", parents=[parent], name="child")
    assert ids(ask(world, "ledger")) == ["child"]


def test_a_fact_that_only_shares_the_start_of_a_hash_is_no_parent() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "raw", cid="sha256:" + "ef" * 32)
    short = "ef" * 31 + "00"
    world.fact(user("b"), "memory:note", "ledger", parents=[short], name="child", source=OTHER)
    answer = recall(
        world.view(),
        world.rows,
        RecallRequest(query="ledger"),
        load_profile("default"),
        reader(),
        world.moment(),
        slots_of_cid=lambda cid: [0],
    )
    assert ids(answer) == ["child"]


def test_a_failing_stage_is_reported_and_its_weight_redistributed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(survey: Survey, parameters: Any, earlier: Mapping[str, Candidates]) -> Candidates:
        raise RuntimeError("no such luck")

    def late(survey: Survey, parameters: Any, earlier: Mapping[str, Candidates]) -> Candidates:
        raise DeadlinePassed("after 250 ms")

    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    for run, status, detail in (
        (broken, "failed", "no such luck"),
        (late, "deadline", "after 250 ms"),
    ):
        monkeypatch.setitem(STAGES, "graph", Stage(STAGES["graph"].parameters, run))
        answer = ask(world, "ledger", profile="stigmem")
        assert ids(answer) == ["fact-0"]
        assert answer.weights == {"lexical": 1.0}
        assert [(s.name, s.status, s.detail) for s in answer.stages] == [
            ("lexical", "completed", ""),
            ("semantic", "disabled", "embeddings are off"),
            ("graph", status, detail),
        ]


def test_depth_zero_disables_the_graph_and_gives_its_weight_away() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    answer = ask(world, "ledger", profile="stigmem", depth=0)
    assert [stage.status for stage in answer.stages] == ["completed", "disabled", "disabled"]
    assert answer.weights == {"lexical": 1.0}


def test_the_callers_weights_are_used() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    answer = ask(world, "ledger", profile="stigmem", weights={"lexical": 0.2, "graph": 0.6})
    assert answer.weights == pytest.approx({"lexical": 0.25, "graph": 0.75})


def test_facts_that_only_a_weightless_stage_found_are_left_out() -> None:
    world = World()
    world.ref(user("a"), "rel:knows", user("b"))
    world.fact(user("b"), "memory:note", "hidden gem", source=OTHER)
    weights = {"lexical": 1.0, "semantic": 0.0, "graph": 0.0}
    assert ids(ask(world, "knows", weights=weights)) == ["fact-0"]


@pytest.mark.parametrize("profile", ["stigmem", "default"])
def test_the_graph_alone_starts_from_the_hits_of_weightless_stages(profile: str) -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger")
    world.ref(user("a"), "rel:knows", user("b"))
    world.fact(user("b"), "memory:note", "gem", source=OTHER)
    weights = {"lexical": 0.0, "semantic": 0.0, "graph": 1.0}
    assert "fact-2" in ids(ask(world, "ledger", profile=profile, weights=weights))


def test_the_newer_of_equals_comes_first() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "ledger", age_days=5)
    world.fact(user("b"), "memory:note", "ledger", age_days=1)
    profile = msgspec.structs.replace(load_profile("stigmem"), factors=())
    assert ids(ask(world, "ledger", profile=profile)) == ["fact-1", "fact-0"]


WORDS = ("ledger", "atlas", "billing", "moves", "keeps")
NAMES = ("ann", "ben", "atlas")


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, str, str, str, float, int]:
    entity = user(draw(st.sampled_from(NAMES)))
    if draw(st.booleans()):
        relation, kind, value = "rel:knows", "ref", user(draw(st.sampled_from(NAMES)))
    else:
        relation = draw(st.sampled_from(("memory:note", "memory:role")))
        kind, value = "text", " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=6)))
    confidence = draw(st.sampled_from((0.1, 0.3, 0.5, 0.9, 1.0)))
    return entity, relation, kind, value, confidence, draw(st.integers(0, 400))


def add_fact(
    world: World, said: tuple[str, str, str, str, float, int], name: str, scope: str
) -> None:
    entity, relation, kind, value, confidence, age = said
    world.fact(
        entity, relation, value, kind=kind, confidence=confidence, age_days=age, name=name,
        scope=scope,
    )  # fmt: skip


def requests() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "token_budget": st.integers(0, 400),
            "limit": st.integers(1, 10),
            "depth": st.integers(0, 3),
            "entity": st.sampled_from((None, user("ann"))),
            "explain": st.booleans(),
            "include_contradicted": st.sampled_from((None, False)),
            "profile": st.sampled_from(("default", "stigmem")),
        }
    )


@given(st.lists(statements(), max_size=12), st.lists(statements(), max_size=8), requests())
def test_facts_the_caller_may_not_read_change_nothing(
    readable: list[tuple[str, str, str, str, float, int]],
    hidden: list[tuple[str, str, str, str, float, int]],
    request: dict[str, Any],
) -> None:
    alone, mixed = World(), World()
    for n, said in enumerate(readable):
        add_fact(alone, said, f"r{n}", "company")
    for n, said in enumerate(hidden[::2]):
        add_fact(mixed, said, f"a{n}", "team")
    for n, said in enumerate(readable):
        add_fact(mixed, said, f"r{n}", "company")
        if n < len(hidden):
            add_fact(mixed, hidden[n], f"b{n}", "team")
    query = "what does atlas ledger keep"
    assert visible_parts(ask(alone, query, **request)) == visible_parts(
        ask(mixed, query, **request)
    )


def visible_parts(answer: RecallAnswer) -> Any:
    """Everything of an answer that a caller sees: all except slots and positions."""
    facts = [
        (each.row.id, each.score, each.breakdown, each.hop_distance, each.token_estimate,
         each.effective_confidence, each.contradicted, each.why, each.explain)
        for each in answer.results
    ]  # fmt: skip
    return facts, answer.total_scored, answer.tokens_used, answer.stages, answer.weights


@given(st.lists(statements(), max_size=15), requests())
def test_budgets_are_kept_and_answers_are_repeatable(
    said: list[tuple[str, str, str, str, float, int]], request: dict[str, Any]
) -> None:
    world = World()
    for n, each in enumerate(said):
        add_fact(world, each, f"r{n}", "company")
    answer = ask(world, "atlas ledger", **request)
    assert answer.tokens_used == sum(each.token_estimate for each in answer.results)
    assert answer.tokens_used <= request["token_budget"]
    assert len(answer.results) <= request["limit"]
    assert answer.truncated == (answer.total_scored > len(answer.results))
    assert answer == ask(world, "atlas ledger", **request)


@given(st.lists(statements(), min_size=1, max_size=12), st.data())
def test_the_past_answers_as_if_the_future_had_not_happened(
    said: list[tuple[str, str, str, str, float, int]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(said)))
    then, now = World(), World()
    for n, each in enumerate(said):
        add_fact(now, each, f"r{n}", "company")
        if n < cut:
            add_fact(then, each, f"r{n}", "company")
    for slot in range(0, len(said), 3):
        now.retract(slot)
    profile = load_profile("default")
    request = RecallRequest(query="atlas ledger", depth=2)
    moment = then.moment()
    answers = [
        recall(w.view(), w.rows, request, profile, reader(), moment, stopwatch=lambda: 0.0)
        for w in (then, now)
    ]
    assert answers[0] == answers[1]


def test_the_lexical_stage_alone_makes_a_profile() -> None:
    assert isinstance(packing(0).stages[0].parameters, lexical.Parameters)
