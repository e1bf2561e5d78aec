import math
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.projections.arrays import I32
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages import bridge
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from tests.worlds.recall_world import NOW_US, World, reader, survey_of, user


def passage(world: World, title: str, text: str, **more: Any) -> int:
    source = more.pop("source", f"doc:{title}")
    return world.fact(user(title), "text", text, source=source, **more)


def hops(
    world: World, hits: dict[int, float], query: str = "director of heat", *scopes: str, **more: Any
) -> Any:
    at = survey_of(world, query, *scopes, context=ConversationContext(before=(0.5,)))
    slots = np.array(sorted(hits), dtype=np.int32)
    scores = np.array([hits[slot] for slot in slots.tolist()])
    earlier = {"one": Candidates(slots, scores, slots * 0, lambda _slots: [])}
    return bridge.run(at, bridge.Parameters(**more), earlier)


def films() -> World:
    world = World()
    passage(world, "heat", "Heat was directed by Michael Mann. The film was long.")  # 0
    passage(world, "mann", "Michael Mann was born in Chicago.")  # 1
    passage(world, "collateral", "A later film of Michael Mann is Collateral.")  # 2
    passage(world, "tea", "Tea is a drink.")  # 3
    return world


def test_a_name_in_a_hit_leads_to_the_facts_that_hold_it() -> None:
    found = hops(films(), {0: 2.0, 3: 1.0})
    assert found.slots.tolist() == [1, 2]
    assert found.scores.tolist() == pytest.approx([1 / math.sqrt(2)] * 2)
    assert found.why(np.array([1], dtype=np.int32)) == [
        ["bridge: holds Michael Mann, as a better hit"]
    ]


def test_a_worse_hit_counts_by_its_share_of_the_best_score() -> None:
    world = films()
    passage(world, "mill", "Tea was grown by Ada Mill.")  # 4
    passage(world, "ada", "Ada Mill lived in Rome.")  # 5
    found = hops(world, {0: 2.0, 4: 1.0})
    assert dict(zip(found.slots.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        {1: 1 / math.sqrt(2), 2: 1 / math.sqrt(2), 5: 0.5}
    )
    with pytest.raises(StageDisabled):
        hops(world, {3: 2.0, 0: 1.0}, facts=1)


def test_hits_that_are_little_like_the_question_lead_less_far() -> None:
    world = films()
    slots = np.array([0], dtype=np.int32)
    for likeness, share in ((0.1, 0.25), (0.4, 1.0), (0.9, 1.0)):
        hits = Candidates(slots, np.array([likeness]), slots * 0, lambda _slots: [])
        at = survey_of(world, "director of heat", context=ConversationContext(before=(0.5,)))
        found = bridge.run(at, bridge.Parameters(), {"semantic": hits})
        assert found.scores.tolist() == pytest.approx([share / math.sqrt(2)] * 2)
        assert found.whole == 1.0


def test_a_name_in_the_question_or_in_many_facts_leads_nowhere() -> None:
    with pytest.raises(StageDisabled):
        hops(films(), {0: 1.0}, "What did Michael Mann direct?")
    with pytest.raises(StageDisabled):
        hops(films(), {0: 1.0}, holders_max=1)


def test_each_name_of_a_question_with_several_leads_to_the_facts_that_hold_it() -> None:
    world = films()
    found = hops(world, {}, "Are Michael Mann and Tea the same?")
    assert dict(zip(found.slots.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        {0: 1 / math.sqrt(3), 1: 1 / math.sqrt(3), 2: 1 / math.sqrt(3), 3: 1.0}
    )
    assert found.why(np.array([1], dtype=np.int32)) == [
        ["bridge: holds Michael Mann, as the question"]
    ]


def test_a_fact_that_holds_both_names_does_not_hide_those_that_hold_one() -> None:
    world = films()
    passage(world, "both", "Michael Mann met Ada Mill.")  # 4
    passage(world, "ada", "Ada Mill lived in Rome.")  # 5
    found = hops(world, {}, "Where did Michael Mann and Ada Mill meet?", holders_max=4)
    assert found.slots.tolist() == [0, 1, 2, 4, 5]


def test_of_a_long_question_few_words_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    holding = Survey.holding

    def counted(survey: Survey, terms: Collection[str]) -> I32:
        tried.append(len(terms))
        return holding(survey, terms)

    monkeypatch.setattr(Survey, "holding", counted)
    with pytest.raises(StageDisabled):
        hops(films(), {}, " ".join(f"Word{n}" for n in range(5_000)))
    assert 0 < len(tried) <= 8 * 32


def test_facts_of_a_conversation_are_no_ends_of_a_bridge() -> None:
    world = World()
    passage(world, "heat", "Heat was directed by Michael Mann.", source="talk")  # 0
    passage(world, "yes", "Yes, it was.", source="talk")  # 1
    passage(world, "mann", "Michael Mann was born in Chicago.")  # 2
    with pytest.raises(StageDisabled):
        hops(world, {0: 1.0})
    with pytest.raises(StageDisabled):
        hops(world, {1: 1.0})
    with pytest.raises(StageDisabled):
        hops(world, {2: 1.0})


def test_unreadable_facts_hold_no_names() -> None:
    world = films()
    passage(world, "secret", "Michael Mann is ill.", scope="team")
    assert hops(world, {0: 1.0}).slots.tolist() == [1, 2]
    assert hops(world, {0: 1.0}).scores.tolist() == hops(films(), {0: 1.0}).scores.tolist()
    seen = hops(world, {0: 1.0}, "director of heat", "company", "team")
    assert seen.slots.tolist() == [1, 2, 4]


def ask(world: World, query: str, moment: Moment) -> RecallAnswer:
    return recall(
        world.view(), world.rows, RecallRequest(query=query, explain=True),
        load_profile("default"), reader(), moment, stopwatch=lambda: 0.0,
    )  # fmt: skip


names = st.sampled_from(["Michael Mann", "Ada Mill", "Rome", "tea", "heat", "the film"])


@given(st.lists(st.lists(names, min_size=1, max_size=4), min_size=2, max_size=10), st.data())
@settings(deadline=None, max_examples=25)
def test_an_answer_about_the_past_or_without_rights_knows_no_more(
    texts: list[list[str]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(texts)))
    past, present, hidden = World(), World(), World()
    for n, text in enumerate(texts):
        for world in (past, present, hidden):
            if n < cut or world is present:
                passage(world, f"p{n}", " and ".join(text))
            elif world is hidden:
                passage(world, f"p{n}", " and ".join(text), scope="team")
    present.retract(0)
    moment = Moment(cut, NOW_US)
    shown = [
        [(each.row.id, each.score, each.explain) for each in ask(world, "heat", at).results]
        for world, at in ((past, moment), (present, moment), (hidden, Moment(len(texts), NOW_US)))
    ]
    assert shown[0] == shown[1] == shown[2]
