import math

import numpy as np
import pytest

from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages import graph, lexical
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from tests.worlds.recall_world import World, reader, user


def surveyed(world: World, request: RecallRequest, *scopes: str, depth: int = 1) -> Survey:
    gate = Gate(effective_min=0.2, contradicted=True)
    return survey(world.view(), request, reader(*scopes), world.moment(), gate=gate, depth=depth)


def lexical_scores(world: World, query: str, *scopes: str, **more: str) -> dict[int, float]:
    at = surveyed(world, RecallRequest(query=query, **more), *scopes)  # pyright: ignore[reportArgumentType]
    return by_slot(lexical.run(at, lexical.Parameters(), {}))


def by_slot(found: Candidates) -> dict[int, float]:
    return dict(zip(found.slots.tolist(), found.scores.tolist(), strict=True))


def four_documents() -> World:
    # The searched text has the entity's path (2 tokens), the relation's words (2) and the value.
    world = World()
    world.fact(user("w"), "memory:text", "apple banana")  # 6 tokens
    world.fact(user("x"), "memory:text", "apple apple cherry")  # 7
    world.fact(user("y"), "memory:text", "banana")  # 5
    world.fact(user("z"), "memory:text", "durian durian elder fig")  # 8
    return world


def test_bm25_of_four_documents() -> None:
    # N = 4, average length (6 + 7 + 5 + 8) / 4 = 6.5, df = 2 for both terms, so
    # idf = ln(1 + (4 - 2 + 0.5) / (2 + 0.5)) = ln 2 = 0.693147. k1 = 1.2, b = 0.75.
    # w: norm = 1.2 * (0.25 + 0.75 * 6 / 6.5) = 1.130769; 2 * ln 2 * 2.2 / 2.130769 = 1.431336
    # x: norm = 1.2 * (0.25 + 0.75 * 7 / 6.5) = 1.269231; ln 2 * 2 * 2.2 / 3.269231 = 0.932894
    # y: norm = 1.2 * (0.25 + 0.75 * 5 / 6.5) = 0.992308; ln 2 * 2.2 / 1.992308 = 0.765406
    expected = {
        0: 2 * math.log(2) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 6 / 6.5)),
        1: math.log(2) * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 7 / 6.5)),
        2: math.log(2) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 5 / 6.5)),
    }
    assert list(expected.values()) == pytest.approx([1.431336, 0.932894, 0.765406], abs=2e-6)
    assert lexical_scores(four_documents(), "apple banana") == pytest.approx(expected, abs=1e-12)


def test_two_neighbouring_words_are_also_one_where_facts_hold_that() -> None:
    world = World()
    world.fact(user("a"), "memory:note", "her email bounced")  # 0
    world.fact(user("a"), "memory:todo", "call Bo")  # 1
    world.fact(user("a"), "memory:note", "parseSentence is slow")  # 2
    world.fact(user("a"), "memory:note", "a later birthday")  # 3
    world.fact(user("a"), "memory:note", "the setup is broken", scope="team")  # 4
    joined = lexical.Parameters(joined=True)

    def found(query: str, parameters: lexical.Parameters = joined) -> list[int]:
        at = surveyed(world, RecallRequest(query=query))
        return lexical.run(at, parameters, {}).slots.tolist()

    assert found("Whose e-mail?") == [0]
    assert found("what is left to do") == [1]
    assert found("where is parse_sentence defined") == [2]
    assert found("Whose e-mail?", lexical.Parameters()) == []
    assert found("is this a later one") == [3]  # no "alater"
    assert found("how to set up") == []
    assert found("what does she want to do there") == []
    assert found("a to-do list") == [1]


def test_bm25_counts_only_facts_that_pass_the_filters() -> None:
    world = four_documents()
    alone = lexical_scores(world, "apple banana")
    world.fact(user("v"), "memory:other", "apple banana apple")
    world.fact(user("v"), "memory:text", "apple banana", scope="team")
    assert lexical_scores(world, "apple banana", relation="memory:text") == alone


def test_a_retracted_fact_leaves_the_statistics() -> None:
    world = four_documents()
    alone = lexical_scores(world, "apple banana")
    slot = world.fact(user("v"), "memory:text", "apple banana apple")
    assert lexical_scores(world, "apple banana") != alone
    world.retract(slot)
    assert lexical_scores(world, "apple banana") == alone


def test_terms_are_stemmed_and_any_of_them_matches() -> None:
    assert set(lexical_scores(four_documents(), "apples or mangoes")) == {0, 1}


def test_stop_words_count_only_where_nothing_else_is_left() -> None:
    world = World()
    world.fact(user("w"), "memory:text", "who is it")
    world.fact(user("x"), "memory:text", "apple 42")
    assert set(lexical_scores(world, "what is the apple")) == {1}
    assert set(lexical_scores(world, "it is 42")) == {1}
    assert set(lexical_scores(world, "who is it")) == {0}


def test_lexical_reasons_name_the_terms_held() -> None:
    world = four_documents()
    request = RecallRequest(query="apple banana")
    found = lexical.run(surveyed(world, request), lexical.Parameters(), {})
    assert found.why(np.array([2], dtype=np.int32)) == [["lexical: holds banana"]]


def linked() -> World:
    world = World()
    world.ref(user("alice"), "rel:works-on", user("atlas"), confidence=0.9)  # 0
    world.ref(user("alice"), "rel:owns", user("bolt"), confidence=0.8)  # 1
    world.ref(user("bolt"), "rel:part-of", user("core"))  # 2
    world.ref(user("carol"), "rel:knows", user("alice"), confidence=0.5)  # 3
    world.fact(user("atlas"), "memory:summary", "moves the ledger")  # 4
    world.fact(user("core"), "memory:summary", "spins")  # 5
    world.fact(user("dave"), "memory:summary", "unrelated")  # 6
    return world


def graph_hits(
    world: World, request: RecallRequest, parameters: graph.Parameters, depth: int
) -> Candidates:
    at = surveyed(world, request, depth=depth)
    earlier = {"lexical": lexical.run(at, lexical.Parameters(), {})}
    return graph.run(at, parameters, earlier)


def test_graph_scores_by_hops_confidence_and_out_degree() -> None:
    found = graph_hits(
        linked(), RecallRequest(query="x", entity=user("alice")), graph.Parameters(), 2
    )
    scores = by_slot(found)
    hops = dict(zip(found.slots.tolist(), found.hops.tolist(), strict=True))
    # atlas, 1 hop over an edge of alice, who has 2: 1/2 * 0.9 / ln 3 = 0.409608
    assert scores[4] == pytest.approx(0.5 * 0.9 / math.log(3))
    assert scores[4] == pytest.approx(0.409608, abs=1e-6)
    # bolt, likewise: 1/2 * 0.8 / ln 3 = 0.364096; its fact is the edge to core
    assert scores[2] == pytest.approx(0.364096, abs=1e-6)
    # carol, 1 hop against the direction of her only edge: 1/2 * 0.5 / ln 2 = 0.360674
    assert scores[3] == pytest.approx(0.360674, abs=1e-6)
    # core, 2 hops, over bolt's only edge: 1/3 * 1 / ln 2 = 0.480898
    assert scores[5] == pytest.approx(0.480898, abs=1e-6)
    # alice herself is named: 1 / (1 + 0), no edge
    assert (scores[0], scores[1]) == (1.0, 1.0)
    assert 6 not in scores
    assert hops == {0: 0, 1: 0, 2: 1, 3: 1, 4: 1, 5: 2}


def test_depth_bounds_the_walk_and_zero_disables_it() -> None:
    request = RecallRequest(query="x", entity=user("alice"))
    assert 5 not in by_slot(graph_hits(linked(), request, graph.Parameters(), 1))
    with pytest.raises(StageDisabled, match="depth is 0"):
        graph_hits(linked(), request, graph.Parameters(), 0)
    unwanted = RecallRequest(query="x", entity=user("alice"), include_neighbors=False)
    with pytest.raises(StageDisabled, match="include_neighbors is false"):
        graph_hits(linked(), unwanted, graph.Parameters(), 1)


def test_entities_of_the_best_hits_are_seeds() -> None:
    # "ledger" hits atlas, which alice's edge reaches backwards: 1/2 * 0.9 / ln 3
    found = graph_hits(linked(), RecallRequest(query="ledger"), graph.Parameters(), 1)
    assert by_slot(found) == pytest.approx({0: 0.409608, 1: 0.409608}, abs=1e-6)
    assert found.why(np.array([0], dtype=np.int32)) == [
        [f"graph: 1 hop from {user('atlas')} by rel:works-on"]
    ]


def test_a_seed_by_hit_is_reached_from_another_seed_but_never_from_itself() -> None:
    world = World()
    world.ref(user("alice"), "rel:works-on", user("atlas"), confidence=0.8)  # 0
    world.ref(user("carol"), "rel:likes", user("carol"))  # 1
    world.fact(user("carol"), "memory:note", "works")  # 2
    found = graph_hits(world, RecallRequest(query="atlas works"), graph.Parameters(), 1)
    # All three are seeds, atlas by name. Alice's only edge: 1/2 * 0.8 / ln 2 = 0.577078
    assert by_slot(found) == pytest.approx({0: 0.577078}, abs=1e-6)
    assert found.hops.tolist() == [1]


def test_entities_named_in_the_query_are_seeds_with_facts_of_their_own() -> None:
    scores = by_slot(graph_hits(linked(), RecallRequest(query="Bolt?"), graph.Parameters(), 1))
    assert scores[2] == 1.0


def test_unreadable_entities_named_in_the_query_take_no_seeds_place() -> None:
    world = linked()
    hidden = [user(f"a{n:02}") for n in range(graph.NAMED_SEEDS_MAX)]
    for name in hidden:
        world.fact(name, "memory:note", "secret", scope="team")
    request = RecallRequest(query=" ".join([*hidden, user("bolt")]))
    assert by_slot(graph_hits(world, request, graph.Parameters(), 1))[2] == 1.0


def test_an_edge_fact_may_share_its_edges_score() -> None:
    # ledger -> atlas -> alice at 0.409608. dave's edge to atlas is dave's only fact of that kind.
    world = linked()
    parameters = graph.Parameters(edge_facts=True)
    request = RecallRequest(query="spins")
    # core is the seed; bolt is reached over edge 2, which is also bolt's fact: no change.
    assert by_slot(graph_hits(world, request, parameters, 1)) == pytest.approx(
        {2: 0.5 / math.log(2)}
    )
    # carol is the seed by hit; alice is reached over carol's fact 3, which now scores too.
    request = RecallRequest(query="knows")
    without = by_slot(graph_hits(world, request, graph.Parameters(named_score=0), 1))
    with_edges = by_slot(graph_hits(world, request, graph.Parameters(10, 0, True), 1))
    assert 3 not in without
    assert with_edges[3] == pytest.approx(0.5 * 0.5 / math.log(2))


def test_distrusted_edges_are_not_walked() -> None:
    world = World()
    world.ref(user("alice"), "rel:knows", user("mallory"), source="agent:shady")
    world.fact(user("mallory"), "memory:text", "trust me")
    request = RecallRequest(query="x", entity=user("alice"))
    assert set(by_slot(graph_hits(world, request, graph.Parameters(), 1))) == {0, 1}
    world.trust("agent:shady", 0.1)
    assert set(by_slot(graph_hits(world, request, graph.Parameters(), 1))) == set()


def test_the_best_are_kept_and_the_older_of_equals() -> None:
    found = Candidates(
        np.array([1, 4, 6, 9], dtype=np.int32),
        np.array([0.5, 0.9, 0.5, 0.5]),
        np.zeros(4, dtype=np.int32),
        lambda slot: [],
    )
    assert found.best(3).slots.tolist() == [1, 4, 6]
