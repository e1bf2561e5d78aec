"""S8: short paths and edges of the entities in a question. Expectations by hand."""

import numpy as np
import pytest

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.arrays import I32
from engramlog.projections.graph.paths import Path, paths_between
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import LIVE, Moment
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages import entity_edges
from engramlog.projections.recall.stages.candidates import StageDisabled
from engramlog.projections.recall.stages.entity_edges import Parameters
from engramlog.projections.tables.declared.aliases import AliasBook, AliasRow
from tests.worlds.recall_world import World, reader


def surveyed(
    world: World,
    query: str,
    *scopes: str,
    depth: int = 2,
    at: Moment | None = None,
    aliases: AliasBook | None = None,
    **more: str | bool,
) -> Survey:
    request = RecallRequest(query=query, **more)  # pyright: ignore[reportArgumentType]
    gate = Gate(effective_min=0.2, contradicted=True)
    return survey(
        world.view(),
        request,
        reader(*scopes),
        at or world.moment(),
        gate=gate,
        depth=depth,
        aliases=aliases,
    )


def found(at: Survey, **parameters: float) -> dict[int, tuple[float, int]]:
    """By slot: score and hops."""
    chosen = Parameters(**parameters)  # pyright: ignore[reportArgumentType]
    hits = entity_edges.run(at, chosen, {})
    scored = zip(hits.scores.tolist(), hits.hops.tolist(), strict=True)
    return dict(zip(hits.slots.tolist(), scored, strict=True))


def paths(world: World, one: str, other: str, *scopes: str) -> list[str]:
    """Every path between two entities, in words."""
    at = surveyed(world, "", *scopes)
    numbers = [at.view.entities.number(f"user:{name}") for name in (one, other)]
    starts, ends = (
        np.array([] if number is None else [number], dtype=np.int32) for number in numbers
    )
    found = paths_between(at.view, starts, ends, at.walkable, one_hop=5, two_hops=15)
    return [path.text(at.view) for path in found]


def chain() -> World:
    """alice works at acme, which is in budapest; mars is known but far."""
    world = World()
    world.ref("user:alice", "works-at", "user:acme")
    world.ref("user:acme", "located-in", "user:budapest")
    world.ref("user:mars", "orbits", "user:sun")
    return world


def test_paths_of_the_chain() -> None:
    world = chain()
    assert paths(world, "alice", "acme") == ["alice —[works-at]→ acme"]
    assert paths(world, "acme", "alice") == ["alice —[works-at]→ acme"]
    over = ["alice —[works-at]→ acme —[located-in]→ budapest"]
    assert paths(world, "alice", "budapest") == over
    assert paths(world, "budapest", "alice") == over
    assert paths(world, "alice", "mars") == []
    assert paths(world, "alice", "nobody") == []


def test_backwards_counts_only_where_nothing_leads_forwards() -> None:
    world = chain()
    world.ref("user:budapest", "hosts", "user:fair")
    world.ref("user:fair", "invites", "user:alice")
    assert paths(world, "alice", "budapest") == ["alice —[works-at]→ acme —[located-in]→ budapest"]
    assert paths(world, "budapest", "alice") == ["budapest —[hosts]→ fair —[invites]→ alice"]


def test_an_edge_that_may_not_be_read_leads_nowhere() -> None:
    world = World()
    world.ref("user:alice", "works-at", "user:acme", scope="team")
    world.ref("user:acme", "located-in", "user:budapest")
    assert paths(world, "alice", "acme") == []
    assert paths(world, "alice", "budapest") == []
    assert len(paths(world, "alice", "budapest", "company", "team")) == 1
    # Nor does it make its entity known: acme's edge is only acme's.
    assert found(surveyed(world, "alice")) == {}
    assert found(surveyed(world, "alice acme")) == {1: (0.6, 1)}


@pytest.mark.parametrize("ceiling", [0, 1, 2, 3])
def test_a_secret_edge_leads_nowhere_under_any_ceiling(ceiling: int) -> None:
    world = World()
    secret = FactAttributes(classification=3)
    world.ref("user:alice", "works-at", "user:acme", attributes=secret)
    world.ref("user:acme", "located-in", "user:budapest", attributes=FactAttributes())
    view, moment = world.view(), world.moment()
    numbers = [np.array([view.entities.numbered(f"user:{name}")], dtype=np.int32)
               for name in ("alice", "acme", "budapest")]  # fmt: skip

    def walkable(slots: I32) -> I32:
        return live(view, reader().capped(ceiling), moment, slots)

    def between(one: int, other: int) -> list[Path]:
        ends = (numbers[one], numbers[other])
        return paths_between(view, *ends, walkable, one_hop=5, two_hops=15)

    assert between(0, 1) == between(0, 2) == []
    assert between(1, 2) == ([Path((1,))] if ceiling else [])


def test_edges_that_only_hidden_ones_continue_take_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engramlog.projections.graph.paths.JOINED_EDGES_MAX", 1)
    world = chain()
    world.ref("user:alice", "visits", "user:vienna")
    world.ref("user:vienna", "near", "user:budapest", scope="team")
    over = ["alice —[works-at]→ acme —[located-in]→ budapest"]
    assert paths(world, "alice", "budapest", "company") == over


def test_the_same_pair_under_two_owners_is_two_rows() -> None:
    world = World()
    world.ref("user:alice", "works-at", "user:acme", source="user:one")
    world.ref("user:alice", "works-at", "user:acme", source="user:two")
    assert paths(world, "alice", "acme") == ["alice —[works-at]→ acme"] * 2
    assert found(surveyed(world, "alice acme")) == {0: (0.6, 1), 1: (0.6, 1)}


def test_paths_score_by_their_length() -> None:
    world = chain()
    world.ref("user:alice", "visited", "user:budapest")
    assert found(surveyed(world, "Has Alice been to Budapest?")) == {
        0: (0.5, 2),
        1: (0.5, 2),
        3: (0.6, 1),
    }
    assert found(surveyed(world, "Has Alice been to Budapest?", depth=1)) == {3: (0.6, 1)}


def test_the_first_known_name_alone() -> None:
    world = chain()
    at = surveyed(world, "is mars near alice or acme", depth=1)
    assert found(at, first_only=True) == {2: (0.6, 1)}
    # Without it, an edge joins alice and acme.
    assert found(at) == {0: (0.6, 1)}


def test_without_a_path_the_edges_of_the_first_three_names() -> None:
    world = World()
    for name in ("one", "two", "three", "four"):
        world.ref(f"user:{name}", "likes", f"user:thing-{name}")
    assert set(found(surveyed(world, "four, three, two, one"))) == {1, 2, 3}


def test_the_newest_ten_edges_of_a_name() -> None:
    world = World()
    ages = [5.0, 1.0, 12.0, 3.0, 7.0, 2.0, 11.0, 4.0, 9.0, 8.0, 6.0, 10.0]
    for number, age in enumerate(ages):
        world.ref("user:alice", "met", f"user:person-{number}", age_days=age)
    newest = {number for number, age in enumerate(ages) if age <= 10.0}
    assert set(found(surveyed(world, "alice"), first_only=True)) == newest
    assert set(found(surveyed(world, "alice"), edges=1)) == {1}


def test_edges_that_may_not_be_read_take_no_place_and_make_no_name() -> None:
    world = World()
    world.ref("user:alice", "met", "user:bob")
    world.ref("user:alice", "met", "user:carol", scope="team")
    world.ref("user:dave", "met", "user:erin", scope="team")
    assert found(surveyed(world, "alice"), edges=1) == {0: (0.6, 1)}
    assert found(surveyed(world, "dave alice"), first_only=True) == {0: (0.6, 1)}


def test_names_of_several_words_and_the_longest_counts() -> None:
    world = World()
    world.ref("place:new-york", "in", "place:america")
    world.ref("place:york", "in", "place:england")
    assert found(surveyed(world, "Is New York big?")) == {0: (0.6, 1)}
    assert found(surveyed(world, "Is new york big?"), phrase_words=1) == {1: (0.6, 1)}
    assert found(surveyed(world, "Is place:new-york, big?")) == {0: (0.6, 1)}


def test_short_words_name_nothing() -> None:
    world = World()
    world.ref("user:al", "met", "user:bo")
    assert found(surveyed(world, "al bo")) == {}
    assert found(surveyed(world, "al bo"), word_length=2) == {0: (0.6, 1)}


def test_an_alias_names_its_entity_while_it_is_live() -> None:
    world = chain()
    row = AliasRow("user:lizzie", "user:alice", "user", 0, 2, LIVE)
    book = AliasBook([row])
    assert found(surveyed(world, "lizzie", aliases=book)) == {0: (0.6, 1)}
    assert found(surveyed(world, "user:lizzie", aliases=book)) == {0: (0.6, 1)}
    before = Moment(1, world.moment().instant_us)
    assert found(surveyed(world, "lizzie", aliases=book, at=before)) == {}
    assert found(surveyed(world, "lizzie")) == {}


def test_retracted_edges_are_visible_only_before() -> None:
    world = chain()
    before = world.moment()
    world.retract(0)
    assert found(surveyed(world, "alice")) == {}
    assert found(surveyed(world, "alice", at=before)) == {0: (0.6, 1)}


def test_filters_limit_hits_but_not_the_walk() -> None:
    world = chain()
    assert found(surveyed(world, "alice budapest", relation="located-in")) == {1: (0.5, 2)}


def test_it_is_switched_off_like_the_graph() -> None:
    world = chain()
    for at in (
        surveyed(world, "alice", depth=0),
        surveyed(world, "alice", include_neighbors=False),
    ):
        with pytest.raises(StageDisabled):
            entity_edges.run(at, Parameters(), {})


def test_reasons_show_the_way() -> None:
    world = chain()
    hits = entity_edges.run(surveyed(world, "alice budapest"), Parameters(), {})
    assert hits.why(np.array([1], dtype=np.int32)) == [
        ["S8:entity-graph: alice —[works-at]→ acme —[located-in]→ budapest"]
    ]


def test_at_most_so_many_paths_in_all() -> None:
    world = World()
    for number in range(30):
        world.ref("user:alice", "met", f"user:friend-{number}")
        world.ref(f"user:friend-{number}", "knows", "user:bob")
    hits = found(surveyed(world, "alice bob"))
    # 15 paths of two edges each, those first whose older edge is newest: the last 15 friends.
    assert set(hits) == set(range(30, 60))
    assert set(found(surveyed(world, "alice bob"), paths=2)) == {56, 57, 58, 59}


def test_a_path_is_made_of_its_edges() -> None:
    assert Path((3, 4)).hops == 2


def test_a_name_of_many_letters_is_found_in_a_sentence_without_spaces() -> None:
    world = World()
    edge = world.ref("user:王小明", "rel:studies_at", "org:北京理工大学")
    world.ref("user:王", "rel:studies_at", "org:x")
    assert found(surveyed(world, "王小明在北京理工大学吗？")) == {edge: (0.6, 1)}
