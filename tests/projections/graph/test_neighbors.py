from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.graph.neighbors import (
    LOOKUPS_MAX,
    DepthExceeded,
    GraphError,
    InvalidRelationFilter,
    Mark,
    Neighbor,
    NeighborQuery,
    NeighborSlice,
    neighbors,
    parse_relation_filter,
)
from tests.worlds.recall_world import World, reader, user


def ask(world: World, start: str, **more: Any) -> NeighborSlice:
    query = NeighborQuery(entity=user(start), scope=more.pop("scope", "company"), **more)
    return neighbors(world.view(), query, reader("company", "team"), world.moment())


def names(page: NeighborSlice) -> list[tuple[int, str]]:
    return [(each.hops, each.entity.rsplit("/", 1)[1]) for each in page.neighbors]


def chain() -> World:
    world = World()
    world.ref(user("alice"), "rel:works-on", user("atlas"))
    world.ref(user("atlas"), "rel:part-of", user("core"), confidence=0.8)
    world.ref(user("zed"), "rel:knows", user("alice"), confidence=0.6)
    world.ref(user("core"), "rel:owned-by", user("dana"))
    world.fact(user("alice"), "memory:note", user("text"))
    return world


def test_a_neighbour_has_the_protocols_shape() -> None:
    page = ask(chain(), "alice", relation_filter="rel:works-on")
    assert page.neighbors == [
        Neighbor(user("atlas"), "rel:works-on", 1, 1.0, 1.0, (user("alice"),))
    ]
    assert (page.next, page.total) == (None, 1)


def test_edges_are_walked_both_ways_and_ordered_by_hops_then_name() -> None:
    page = ask(chain(), "alice", depth=3)
    assert names(page) == [(1, "atlas"), (1, "zed"), (2, "core"), (3, "dana")]
    assert page.neighbors[2].path == (user("alice"), user("atlas"))
    assert page.neighbors[3].path == (user("alice"), user("atlas"), user("core"))
    assert page.neighbors[1].relation == "rel:knows"
    assert names(ask(chain(), "dana", depth=1)) == [(1, "core")]


def test_the_shortest_path_wins_and_of_equals_the_surest_edge() -> None:
    world = chain()
    world.ref(user("alice"), "rel:likes", user("core"), confidence=0.3)
    world.ref(user("alice"), "rel:uses", user("core"), confidence=0.4)
    page = ask(world, "alice", depth=2)
    core = page.neighbors[names(page).index((1, "core"))]
    assert (core.relation, core.confidence, core.path) == ("rel:uses", 0.4, (user("alice"),))


def test_weak_and_distrusted_edges_are_pruned_before_they_are_walked() -> None:
    world = chain()
    assert names(ask(world, "alice", depth=3, min_confidence=0.9)) == [(1, "atlas")]
    world.ref(user("core"), "rel:owned-by", user("eve"), source="agent:shady")
    world.trust("agent:shady", 0.2)
    assert (3, "eve") in names(ask(world, "alice", depth=3))
    assert (3, "eve") not in names(ask(world, "alice", depth=3, min_trust=0.5))


def test_scopes_are_never_crossed() -> None:
    world = chain()
    world.ref(user("alice"), "rel:knows", user("bob"), scope="team")
    world.ref(user("bob"), "rel:knows", user("carl"))
    assert names(ask(world, "alice")) == [(1, "atlas"), (1, "zed")]
    assert names(ask(world, "alice", scope="team", depth=3)) == [(1, "bob")]


def test_an_unreadable_scope_has_no_neighbours() -> None:
    world = chain()
    query = NeighborQuery(entity=user("alice"), scope="company")
    page = neighbors(world.view(), query, reader("team"), world.moment())
    assert page == NeighborSlice([], None, 0)


def test_retracted_edges_and_bookkeeping_are_not_edges() -> None:
    world = World()
    gone = world.ref(user("alice"), "rel:knows", user("bob"))
    world.ref(user("alice"), "stigmem:conflict:between", user("carl"))
    world.retract(gone)
    assert ask(world, "alice") == NeighborSlice([], None, 0)


def test_a_resolution_is_no_neighbour_of_its_facts() -> None:
    world = World()
    world.ref(user("alice"), "memory:manager", user("bob"))
    world.ref("stigmem:resolution:stigmem:conflict:1", "memory:manager", user("bob"))
    assert names(ask(world, "bob")) == [(1, "alice")]


def test_an_unknown_entity_has_no_neighbours() -> None:
    assert ask(chain(), "nobody") == NeighborSlice([], None, 0)


def test_a_loop_does_not_make_an_entity_its_own_neighbour() -> None:
    world = World()
    world.ref(user("alice"), "rel:knows", user("alice"))
    world.ref(user("alice"), "rel:knows", user("bob"))
    world.ref(user("bob"), "rel:knows", user("alice"))
    assert names(ask(world, "alice", depth=3)) == [(1, "bob")]


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("rel:knows", ("rel:knows",)),
        ("rel:*", ("rel:*",)),
        ("rel:a, memory:b*", ("rel:a", "memory:b*")),
        ("*", ("*",)),
        ("memory.role", ("memory.role",)),
    ],
)
def test_labels_and_suffix_globs_are_filters(text: str, patterns: tuple[str, ...]) -> None:
    assert parse_relation_filter(text) == patterns


@pytest.mark.parametrize(
    "text",
    ["", "a,,b", ",", "a?", "[ab]", "(a)", "a|b", "^a", "a$", "r*l", "*a", "a**", "a+", "\\w"],
)
def test_more_than_a_suffix_glob_is_refused(text: str) -> None:
    with pytest.raises(InvalidRelationFilter) as refused:
        ask(chain(), "alice", relation_filter=text)
    assert refused.value.code == "invalid_relation_filter"


def test_globs_choose_edges() -> None:
    assert names(ask(chain(), "alice", relation_filter="rel:w*")) == [(1, "atlas")]
    assert names(ask(chain(), "alice", relation_filter="rel:w*,rel:knows")) == [
        (1, "atlas"),
        (1, "zed"),
    ]
    assert names(ask(chain(), "alice", relation_filter="memory:*")) == []


@pytest.mark.parametrize("depth", [0, 4])
def test_depth_has_bounds(depth: int) -> None:
    with pytest.raises(DepthExceeded) as refused:
        ask(chain(), "alice", depth=depth)
    assert refused.value.code == "graph_depth_exceeded"


@pytest.mark.parametrize("page_size", [0, 201])
def test_page_size_has_bounds(page_size: int) -> None:
    with pytest.raises(GraphError):
        ask(chain(), "alice", page_size=page_size)


def test_a_page_continues_where_the_last_one_ended_despite_later_writes() -> None:
    world = World()
    for n in range(5):
        world.ref(user("hub"), "rel:has", user(f"n{n}"))
    first = ask(world, "hub", page_size=2)
    moment = world.moment()
    assert (names(first), first.next) == ([(1, "n0"), (1, "n1")], Mark(1, user("n1")))
    world.ref(user("hub"), "rel:has", user("a-new-one"))
    world.ref(user("hub"), "rel:has", user("n15"))
    seen = names(first)
    mark = first.next
    while mark is not None:
        query = NeighborQuery(entity=user("hub"), scope="company", page_size=2, after=mark)
        page = neighbors(world.view(), query, reader(), moment)
        assert page.total == 5
        seen += names(page)
        mark = page.next
    assert seen == [(1, f"n{n}") for n in range(5)]


def test_a_large_frontier_is_expanded_like_a_small_one() -> None:
    world = World()
    count = LOOKUPS_MAX + 1
    for n in range(count):
        world.ref(user("hub"), "rel:has", user(f"n{n}"))
    world.ref(user("n7"), "rel:knows", user("far"))
    world.ref(user("near"), "rel:knows", user("n9"))
    page = ask(world, "hub", depth=2, after=Mark(2, ""))
    assert names(page) == [(2, "far"), (2, "near")]
    assert page.neighbors[1].path == (user("hub"), user("n9"))
    assert page.total == count + 2


@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14),
    hidden=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8),
    depth=st.integers(1, 3),
    page_size=st.integers(1, 4),
)
def test_pages_together_are_the_breadth_first_walk(
    edges: list[tuple[int, int]],
    hidden: list[tuple[int, int]],
    depth: int,
    page_size: int,
) -> None:
    world = World()
    for n in range(max(len(edges), len(hidden))):
        for scope, said in (("public", hidden), ("company", edges)):
            if n < len(said):
                start, end = said[n]
                world.ref(user(f"n{start}"), "rel:to", user(f"n{end}"), scope=scope)
    hops = {0: 0}
    for hop in range(1, depth + 1):
        linked = {b for a, b in edges if a in hops} | {a for a, b in edges if b in hops}
        hops |= {n: hop for n in linked if n not in hops}
    expected = sorted((hop, f"n{n}") for n, hop in hops.items() if hop)
    found: list[tuple[int, str]] = []
    page = ask(world, "n0", depth=depth, page_size=page_size)
    while True:
        assert page.total == len(expected)
        found += names(page)
        if page.next is None:
            break
        page = ask(world, "n0", depth=depth, page_size=page_size, after=page.next)
    assert found == expected
