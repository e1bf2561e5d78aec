from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.embedding.errors import ProviderUnavailable
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.in_memory import Vectors
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import Profile, load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.stages import semantic
from engramlog.projections.recall.stages.candidates import StageDisabled
from engramlog.projections.recall.stages.semantic import Own
from tests.worlds.provider_double import (
    CARD,
    WordsProvider,
    words_vector,
)
from tests.worlds.recall_vectors import embedded
from tests.worlds.recall_world import NOW_US, World, reader, survey_of, user

pytestmark = pytest.mark.usefixtures("every_text_is_told")

LATIN_ONLY = msgspec.structs.replace(CARD, latin_only=True)


@pytest.fixture
def provider() -> WordsProvider:
    return WordsProvider()


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    made = EmbeddingCache(tmp_path / "embeddings.db")
    yield made
    made.close()


def run(
    world: World,
    semantics: Semantics | None,
    query: str,
    *scopes: str,
    floor: float = 0.0,
    moment: Moment | None = None,
    context: ConversationContext | None = None,
    own: Own | None = None,
) -> Any:
    at = survey_of(world, query, *scopes, moment=moment, semantics=semantics, context=context)
    return semantic.run(at, semantic.Parameters(floor=floor, own=own), {})


def ask(
    world: World,
    semantics: Semantics | None,
    query: str,
    profile: str | Profile = "stigmem",
    moment: Moment | None = None,
    **more: Any,
) -> RecallAnswer:
    chosen = load_profile(profile) if isinstance(profile, str) else profile
    return recall(
        world.view(),
        world.rows,
        RecallRequest(query=query, **more),
        chosen,
        reader(),
        moment or world.moment(),
        semantics=semantics,
        stopwatch=lambda: 0.0,
    )


def drinks() -> World:
    world = World()
    world.fact(user("ann"), "memory:drink", "green tea")  # 0
    world.fact(user("bob"), "memory:drink", "black coffee")  # 1
    world.fact(user("cyd"), "memory:drink", "green tea", scope="team")  # 2
    return world


def test_the_score_is_the_cosine_of_every_survivor(provider: Any, cache: Any) -> None:
    world = drinks()
    found = run(world, embedded(world, provider, cache), "ann memory:drink green tea")
    query = words_vector("ann memory:drink green tea").astype(np.float64)
    expected = {0: 1.0, 1: float(query @ words_vector("bob memory:drink black coffee"))}
    assert dict(zip(found.slots.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        expected, abs=2e-6
    )
    assert found.why(np.array([0], dtype=np.int32)) == [["semantic: cosine 1.000 with the query"]]
    assert found.detail == ""


def test_in_context_a_fact_is_as_near_as_with_its_neighbours(provider: Any, cache: Any) -> None:
    world = World()
    world.fact(user("ann"), "memory:drink", "which tea")  # 0
    world.fact(user("bob"), "memory:drink", "sencha")  # 1
    world.fact(user("cyd"), "memory:drink", "sencha", source="agent:other")  # 2
    semantics = embedded(world, provider, cache)
    found = run(world, semantics, "ann which tea", context=ConversationContext(before=(0.5,)))
    texts = ("ann memory:drink which tea", "bob memory:drink sencha", "cyd memory:drink sencha")
    first, second, third = (words_vector(text).astype(np.float64) for text in texts)
    query = words_vector("ann which tea").astype(np.float64)
    both = second + 0.5 * first
    lent = float(query @ both / np.linalg.norm(both))
    assert lent > float(query @ second)
    expected = {0: float(query @ first), 1: lent, 2: float(query @ third)}
    expected = {slot: cosine for slot, cosine in expected.items() if cosine > 0}
    assert dict(zip(found.slots.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        expected, abs=2e-6
    )
    assert found.why(np.array([1], dtype=np.int32)) == [
        [f"semantic: cosine {lent:.3f} in its context with the query"]
    ]


def test_a_feed_has_no_context(provider: Any, cache: Any) -> None:
    world = drinks()
    semantics = embedded(world, provider, cache)

    def found(context: ConversationContext | None) -> tuple[list[int], list[float]]:
        made = run(world, semantics, "green tea", context=context)
        return made.slots.tolist(), made.scores.tolist()

    feed = ConversationContext(before=(0.5, 0.25), after=(0.5,), facts_max=1)
    assert found(feed) == found(None)
    assert found(msgspec.structs.replace(feed, facts_max=100)) != found(None)


@pytest.mark.parametrize("erased", [False, True])
def test_context_follows_vectors_that_come_or_go_without_a_write(
    provider: Any, cache: Any, erased: bool
) -> None:
    world = drinks()
    context = ConversationContext(before=(0.5, 0.25), after=(0.5,))

    def found(semantics: Semantics) -> tuple[list[int], list[float]]:
        made = run(world, semantics, "green tea", context=context)
        return made.slots.tolist(), made.scores.tolist()

    whole, partial = embedded(world, provider, cache), embedded(world, provider, cache, (1,))
    slot = np.array([1], dtype=np.int32)
    kept, other = (whole, partial) if erased else (partial, whole)
    assert found(kept) != found(other)
    vectors = kept.vectors
    assert isinstance(vectors, Vectors)
    if erased:
        vectors.forget(slot)
    else:
        vectors.put(slot, whole.vectors.rows(slot)[0])
    assert found(kept) == found(other)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(("green tea", "coffee", "said so", "sencha"))),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.sampled_from((0.0, 0.1, 0.5, 1.0)), max_size=3),
    st.lists(st.sampled_from((0.0, 0.3)), max_size=2),
    st.sampled_from((None, 2, 5)),
)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_in_context_likeness_is_that_of_the_sum_of_vectors(
    provider: Any,
    cache: Any,
    said: list[tuple[int, str]],
    before: list[float],
    after: list[float],
    terms: int | None,
) -> None:
    world = World()
    for number, (source, word) in enumerate(said):
        world.fact(user(f"u{number}"), "memory:said", word, source=f"agent:s{source}")
    context = ConversationContext(before=tuple(before), after=tuple(after), terms=terms)
    found = run(world, embedded(world, provider, cache), "green tea said", context=context)
    kept = [1.0 if terms is None else terms / max(n, terms) for n in world.view().length]
    vectors = [
        words_vector(f"u{number} memory:said {word}").astype(np.float64)
        for number, (_, word) in enumerate(said)
    ]
    query = words_vector("green tea said").astype(np.float64)
    for slot, score in zip(found.slots.tolist(), found.scores.tolist(), strict=True):
        talk = [n for n, (source, _) in enumerate(said) if source == said[slot][0]]
        place = talk.index(slot)
        total = vectors[slot].copy()
        for n, share in enumerate(before, 1):
            if place - n >= 0:
                near = talk[place - n]
                total += share * kept[slot] * kept[near] * vectors[near]
        for n, share in enumerate(after, 1):
            if place + n < len(talk):
                near = talk[place + n]
                total += share * kept[slot] * kept[near] * vectors[near]
        wanted = max(vectors[slot] @ query, total @ query / np.linalg.norm(total))
        assert score == pytest.approx(wanted, abs=3e-6)


def test_the_floor_counts_as_no_likeness(provider: Any, cache: Any) -> None:
    world = drinks()
    plain = run(world, embedded(world, provider, cache), "green tea")
    raised = run(world, embedded(world, provider, cache), "green tea", floor=0.25)
    above = plain.scores > 0.25
    assert raised.slots.tolist() == plain.slots[above].tolist()
    assert raised.scores == pytest.approx((plain.scores[above] - 0.25) / 0.75)


def test_where_nothing_is_near_the_nearest_is_still_told_from_the_rest(
    provider: Any, cache: Any
) -> None:
    world = drinks()
    semantics = embedded(world, provider, cache)
    plain = run(world, semantics, "green tea")
    best = float(plain.scores.max())
    # The floor is two thirds of the best cosine, but the best one scores no more than before.
    found = run(world, semantics, "green tea", floor=0.75 * best)
    above = plain.scores > best * 2 / 3
    assert found.slots.tolist() == plain.slots[above].tolist()
    ratios = (plain.scores[above] - best * 2 / 3) / (best / 3)
    assert found.scores == pytest.approx(ratios * 0.25 * best / (1 - 0.75 * best))
    unlike = run(world, semantics, "green tea", floor=min(2 * best, 0.99))
    assert unlike.slots.tolist() == found.slots.tolist()
    assert unlike.scores == pytest.approx(ratios * 0.01)


def test_what_only_a_fact_says_decides_a_share(provider: Any, cache: Any) -> None:
    world = drinks()
    texts = ("ann memory:drink green tea", "bob memory:drink black coffee")
    rows = [words_vector(text).astype(np.float64) for text in texts]
    query = words_vector("memory:drink green").astype(np.float64)
    mean = (rows[0] + rows[1]) / 2
    expected: dict[int, float] = {}
    for slot, row in enumerate(rows):
        left = row - 0.5 * mean
        alone = float(left @ query) / float(np.linalg.norm(left))
        expected[slot] = 0.75 * float(row @ query) + 0.25 * max(alone, 0.0)
    # The third fact is unreadable: it is no part of the mean.
    own = Own(share=0.25, common=0.5)
    found = run(world, embedded(world, provider, cache), "memory:drink green", own=own)
    scores = dict(zip(found.slots.tolist(), found.scores.tolist(), strict=True))
    assert scores == pytest.approx(expected, abs=2e-6)
    assert "for what only it says" in found.why(np.array([0], dtype=np.int32))[0][0]


def test_unreadable_facts_are_never_compared(provider: Any, cache: Any) -> None:
    world = drinks()
    semantics = embedded(world, provider, cache)
    assert 2 not in run(world, semantics, "green tea").slots
    assert run(world, semantics, "green tea", "team").slots.tolist() == [2]


def test_facts_too_faint_to_have_a_vector_are_not_missed(provider: Any, cache: Any) -> None:
    world = drinks()
    world.fact(user("dee"), "memory:drink", "green tea", confidence=0.1)
    found = run(world, embedded(world, provider, cache, without=(3,)), "green tea")
    assert found.detail == ""
    assert 3 not in run(world, embedded(world, provider, cache), "green tea").slots


def test_facts_that_wait_for_their_vector_are_counted(provider: Any, cache: Any) -> None:
    world = drinks()
    semantics = embedded(world, provider, cache, without=(1,))
    answer = ask(world, semantics, "green tea")
    stage = next(stage for stage in answer.stages if stage.name == "semantic")
    assert (stage.status, stage.detail) == (
        "completed",
        "partial: 1 facts are not embedded yet",
    )


@pytest.mark.parametrize(
    ("query", "without", "told"),
    [("  ", (), "the query is empty"), ("tea", (0, 1, 2), "no fact is embedded yet")],
)
def test_the_stage_is_disabled_without_vectors(
    provider: Any, cache: Any, query: str, without: tuple[int, ...], told: str
) -> None:
    world = drinks()
    with pytest.raises(StageDisabled, match=told):
        run(world, embedded(world, provider, cache, without), query)
    with pytest.raises(StageDisabled, match="embeddings are off"):
        run(world, None, "tea")


def test_a_provider_that_is_away_costs_recall_only_its_meaning(provider: Any, cache: Any) -> None:
    world = drinks()
    semantics = embedded(world, provider, cache)
    provider.fault = ProviderUnavailable("away")
    answer = ask(world, semantics, "green tea")
    without = ask(world, None, "green tea")
    assert [each.score for each in answer.results] == [each.score for each in without.results]
    assert answer.weights == pytest.approx({"lexical": 0.6, "graph": 0.4})
    stage = next(stage for stage in answer.stages if stage.name == "semantic")
    assert (stage.status, stage.detail) == ("failed", "away")


def test_the_seeds_weights_are_those_of_its_profile(provider: Any, cache: Any) -> None:
    world = drinks()
    answer = ask(world, embedded(world, provider, cache), "green tea", explain=True)
    assert answer.weights == pytest.approx({"lexical": 0.3, "semantic": 0.5, "graph": 0.2})
    best = answer.results[0]
    assert best.row.id == "fact-0"
    assert best.breakdown.semantic == 1.0
    assert best.explain is not None
    assert best.explain["stages"]["semantic"]["weight"] == 0.5


def test_meaning_finds_facts_without_a_common_word(provider: Any, cache: Any) -> None:
    world = World()
    world.fact(user("ann"), "memory:drink", "who is it")  # stop-words alone
    world.fact(user("bob"), "memory:note", "ledger")
    semantics = embedded(world, provider, cache)
    assert ask(world, None, "it is who ledger").results[0].row.id == "fact-1"
    found = ask(world, semantics, "ann who is it", weights={"semantic": 1.0})
    assert found.results[0].row.id == "fact-0"


def test_a_question_is_embedded_once_while_it_is_remembered(provider: Any, cache: Any) -> None:
    world = drinks()
    semantics = embedded(world, provider, cache)
    first = semantics.query("tea")
    provider.fault = ProviderUnavailable("away")
    assert semantics.query("tea") is first
    with pytest.raises(ProviderUnavailable):
        semantics.query("coffee")


def test_diversity_is_judged_by_vectors(provider: Any, cache: Any) -> None:
    document = msgspec.to_builtins(load_profile("stigmem"))
    document["diversity"]["lambda"] = 0.3
    world = World()
    world.fact(user("ann"), "memory:drink", "tea")  # 0
    world.fact(user("bob"), "memory:drink", "tea")  # 1: alike by words, made unlike below
    world.fact(user("cyd"), "memory:drink", "tea mug")  # 2: unlike by words, made alike
    semantics = embedded(world, provider, cache)
    vectors = semantics.vectors
    base, other = words_vector("one"), words_vector("two")
    vectors.put(np.array([0, 1, 2], dtype=np.int32), np.stack([base, other, base]))
    by_vectors = [each.slot for each in ask(world, semantics, "tea", lambda_mmr=0.3).results]
    by_words = [each.slot for each in ask(world, None, "tea", lambda_mmr=0.3).results]
    # Whichever comes first, the next is the least similar one.
    assert {by_vectors[0], by_vectors[1]} in ({0, 1}, {1, 2})
    assert {by_words[0], by_words[1]} in ({0, 2}, {1, 2})


words = st.lists(st.sampled_from(["tea", "mug", "cat", "dog", "ledger"]), min_size=1, max_size=4)


@given(st.lists(words, min_size=2, max_size=12), st.data())
@settings(deadline=None)
def test_an_answer_about_the_past_is_that_of_a_node_that_knew_no_more(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], data: st.DataObject
) -> None:
    cache = EmbeddingCache(tmp_path_factory.mktemp("cache") / "embeddings.db")
    cut = data.draw(st.integers(1, len(texts)))
    past, present = World(), World()
    for n, text in enumerate(texts):
        for world in (past, present) if n < cut else (present,):
            world.fact(user(text[0]), "memory:note", " ".join(text))
    present.retract(0)
    moment = Moment(cut, NOW_US)
    answers = [
        ask(world, embedded(world, WordsProvider(), cache), "tea and a dog", "default", moment)
        for world in (past, present)
    ]
    cache.close()
    one, two = (
        [(each.row.id, each.score, each.breakdown, each.why) for each in answer.results]
        for answer in answers
    )
    assert one == two


@pytest.mark.parametrize("query", ["緑茶を飲むのは誰ですか", "Кто сегодня пьёт tea?"])
def test_a_question_in_a_script_that_the_model_does_not_know_is_asked_by_words(
    provider: Any, cache: Any, query: str
) -> None:
    world = drinks()
    latin_only = embedded(world, provider, cache, card=LATIN_ONLY)
    with pytest.raises(StageDisabled, match="does not know the script"):
        run(world, latin_only, query)
    assert latin_only.known(query) is None
    run(world, embedded(world, provider, cache), query)


def test_a_name_in_another_script_does_not_hinder_a_question(provider: Any, cache: Any) -> None:
    world = drinks()
    query = "who drinks green tea with 王小明"
    known = run(world, embedded(world, provider, cache), query)
    found = run(world, embedded(world, provider, cache, card=LATIN_ONLY), query)
    assert found.slots.tolist() == known.slots.tolist() != []
