import math
from typing import Any

import msgspec
import numpy as np
import pytest

from engramlog.projections.moment import Moment
from engramlog.projections.recall.certainty import AnswerKnown, Certainty
from engramlog.projections.recall.factors.features import load_features
from engramlog.projections.recall.profile import ProfileError, load_profile, parse_profile
from engramlog.projections.recall.ranking.chance import (
    Chance,
    chance_of,
    evidence_of,
    missing_word,
    scaled,
)
from engramlog.projections.recall.ranking.fusion import Fused
from engramlog.projections.recall.ranking.scoring import Scored
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates
from tests.worlds.recall_world import World, survey_of, user

NUMBERS = Certainty(bias=-2.0, semantic=2.0, speaker=1.0, margin=4.0, weak_below=0.5)


def surveyed(world: World, query: str, moment: Moment | None = None) -> Survey:
    return survey_of(world, query, moment=moment)


def scored(at: Survey, scores: list[float], likeness: list[float] | None) -> Scored:
    slots, numbers = np.arange(len(scores), dtype=np.int32), np.array(scores)
    raw = {} if likeness is None else {"semantic": np.array(likeness)}
    fused = Fused(slots, raw, raw, slots * 0, numbers)
    return Scored(fused, load_features(at, slots, (), {}, fused), {}, numbers, numbers)


def many_of(facts: int) -> float:
    """The share of fifty facts, which are many."""
    return math.log(facts + 1) / math.log(51)


def talk() -> World:
    world = World()
    for n in range(10):
        world.fact(user(("ann", "bob")[n % 2]), "said", f"something {n}")
    return world


def test_the_chance_of_a_hand_computed_answer() -> None:
    at = surveyed(talk(), "What does Ann cook?")
    scores = [0.8, 0.2, 0.4, 0.1, 0.6, 0.3]
    found = chance_of(at, NUMBERS, scored(at, scores, [0.9, 0.1, 0.5, 0.7, 0.2, 0.3]))
    # By score: facts 0, 4, 2, 5, 1; their likeness 0.9, 0.2, 0.5, 0.3, 0.1 is 0.4 on average.
    # Ann said 0, 4 and 2. The others' scores 0.6, 0.4, 0.3, 0.2 are 0.375 on average. Ten facts
    # compete, of the fifty that would be many: likeness stands in for the rest.
    margin = (1 - 0.375 / 0.8) * many_of(10) + 0.4 * (1 - many_of(10)) ** 4
    chance = 1 / (1 + math.exp(-(-2 + 2 * 0.4 + 1 + 4 * margin)))
    assert found is not None
    assert (found.semantic, found.speaker, found.margin) == pytest.approx((0.4, 1.0, margin))
    assert found.chance == pytest.approx(chance, abs=1e-8)


def test_a_fact_that_is_little_like_the_question_or_has_few_rivals_is_less_certain() -> None:
    at = surveyed(talk(), "What does Ann cook?")
    scores = [0.8, 0.2]
    sure = chance_of(at, NUMBERS, scored(at, scores, [0.4, 0.0]))
    unlike = chance_of(at, NUMBERS, scored(at, scores, [0.1, 0.3]))  # of the same mean
    assert sure is not None
    assert unlike is not None
    assert unlike.semantic == sure.semantic
    alone = 0.4 * (1 - many_of(10)) ** 4
    assert sure.margin == pytest.approx(0.75 * many_of(10) + alone)
    assert unlike.margin == pytest.approx(0.75 * many_of(10) / 4 + alone / 16)
    many = World()
    for n in range(60):
        many.fact(user("ann"), "said", f"something {n}")
    at = surveyed(many, "What does Ann cook?")
    surest = chance_of(at, NUMBERS, scored(at, scores, [0.4, 0.0]))
    assert surest is not None
    assert surest.margin == pytest.approx(0.75)


def test_the_only_fact_of_a_memory_is_judged_by_its_likeness() -> None:
    world = World()
    world.fact(user("ann"), "said", "something")
    at = surveyed(world, "What is said?")
    like = chance_of(at, NUMBERS, scored(at, [0.8], [0.5]))
    unlike = chance_of(at, NUMBERS, scored(at, [0.8], [0.1]))
    assert like is not None
    assert unlike is not None
    assert like.margin == pytest.approx(0.4 * (1 - many_of(1)) ** 4)
    assert unlike.margin == pytest.approx(like.margin / 16)


def test_facts_of_others_lower_the_chance_for_a_named_speaker() -> None:
    at = surveyed(talk(), "What does Ann cook?")
    mixed = chance_of(at, NUMBERS, scored(at, [0.2, 0.6, 0.2], [0.5, 0.5, 0.5]))
    assert mixed is not None
    assert mixed.speaker == pytest.approx(0.4)
    nobody = surveyed(talk(), "What is cooked?")
    same = chance_of(nobody, NUMBERS, scored(nobody, [0.2, 0.6, 0.2], [0.5, 0.5, 0.5]))
    assert same is not None
    assert same.speaker == 1.0
    assert same.chance > mixed.chance


def test_a_rare_word_that_no_first_fact_holds_is_missing() -> None:
    world = talk()
    world.fact(user("ann"), "said", "tea")
    world.fact(user("ann"), "said", "sencha", scope="team")
    best = np.array([0, 1], dtype=np.int32)

    def idf(holders: int) -> float:
        return math.log1p((11 - holders + 0.5) / (holders + 0.5))

    # Of 11 facts one holds tea, ten something. A fact that Ann said need not hold her name.
    for query, missing in (
        ("something of Ann", 0.0),
        ("something of tea", idf(1) / idf(0)),
        ("tea or sencha", 1.0),
    ):
        assert missing_word(surveyed(world, query), best) == pytest.approx(missing)


def test_whether_an_answer_is_known_is_another_chance() -> None:
    known = AnswerKnown(bias=-1.0, speaker=2.0, semantic=1.0, missing=-3.0, weak_below=0.5)
    numbers = msgspec.structs.replace(NUMBERS, weak_below=0.0, answer=known)
    at = surveyed(talk(), "What does Ann cook?")
    found = chance_of(at, numbers, scored(at, [0.8, 0.2], [0.9, 0.5]))
    assert found is not None
    assert found.missing == 1.0
    assert found.speaker == pytest.approx(0.8)
    total = -1 + 2 * 0.8 + 0.7 - 3
    assert found.answerable == pytest.approx(1 / (1 + math.exp(-total)), abs=1e-8)
    profile = msgspec.structs.replace(load_profile("default"), certainty=numbers)
    slots = np.array([0], dtype=np.int32)
    hits = {"lexical": Candidates(slots, np.ones(1), slots, lambda _slot: [])}
    assert evidence_of(profile, hits, found) == "weak"
    sure = msgspec.structs.replace(found, answerable=0.5)
    assert evidence_of(profile, hits, sure) == "strong"


def test_scores_keep_their_order_and_ratios() -> None:
    at = surveyed(talk(), "")
    made = scaled(scored(at, [0.2, 0.8, 0.4], None), Chance(0.6, 0, 0, 0))
    assert made.score.tolist() == pytest.approx([0.15, 0.6, 0.3])


def test_without_meaning_or_facts_no_chance_is_known() -> None:
    at = surveyed(talk(), "tea")
    assert chance_of(at, NUMBERS, scored(at, [0.2, 0.8], None)) is None
    assert chance_of(at, NUMBERS, scored(at, [], [])) is None


def test_evidence_is_weak_under_the_bound() -> None:
    document: dict[str, Any] = {
        "name": "tried", "description": "", "stages": [{"name": "lexical", "weight": 1.0}],
        "certainty": {"bias": 0, "semantic": 1, "speaker": 1, "margin": 1, "weak_below": 0.5},
    }  # fmt: skip
    profile = parse_profile(document)
    slots = np.array([0], dtype=np.int32)
    hits = {"lexical": Candidates(slots, np.ones(1), slots, lambda _slot: [])}
    assert evidence_of(profile, hits, Chance(0.49, 0, 0, 0)) == "weak"
    assert evidence_of(profile, hits, Chance(0.5, 0, 0, 0)) == "strong"
    assert evidence_of(profile, {}, None) == "none"
    assert evidence_of(profile, hits, None) is None


def test_a_wrong_certainty_is_refused_by_its_field() -> None:
    stages = [{"name": "lexical", "weight": 1.0}]
    certainty = {"bias": 0, "semantic": 101, "speaker": 1, "margin": 1}
    document = {"name": "tried", "description": "", "stages": stages, "certainty": certainty}
    with pytest.raises(ProfileError) as caught:
        parse_profile(document)
    assert caught.value.path == "$.certainty.semantic"


def test_only_default_has_a_chance() -> None:
    known = {name for name in ("default", "stigmem", "abmind", "abmind-head", "stargraph")
             if load_profile(name).certainty is not None}  # fmt: skip
    assert known == {"default"}
