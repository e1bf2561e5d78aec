"""Pages of neighbours: the cursor's promises, and the visibility of edges."""

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.event import Recorded, scope_partition, stream_name
from engramlog.projections.authorization import Authorization
from engramlog.projections.graph.neighbors import NeighborQuery, neighbors
from engramlog.projections.graph.smallest_names import SAMPLE_NAMES
from engramlog.projections.normalization import SCOPES
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.recall_world import World, reader, user

HUB = "stigmem://t.example/user/hub"


def ask(live: LiveNode, **params: Any) -> Any:
    given = {"entity": HUB, "scope": "company", **params}
    return live.call("GET", "/v1/graph/neighbors", params=given)


def link(live: LiveNode, name: str, *, to: bool = False, **more: Any) -> dict[str, Any]:
    """An edge between the hub and ``user:NAME``, arriving if ``to``."""
    start, end = (f"user:{name}", HUB) if to else (HUB, f"user:{name}")
    return live.state(entity=start, relation="rel:knows", type="ref", v=end, **more)


_names = st.text("abcdef", min_size=1, max_size=3)
_changes = st.one_of(
    st.tuples(st.just("insert"), _names, st.booleans()),
    st.tuples(st.just("retract"), st.integers(0, 99), st.just(False)),
    st.tuples(st.just("decay"), st.sampled_from((1, 5_000)), st.just(False)),
    st.tuples(st.just("distrust"), st.sampled_from((0.0, 0.5)), st.just(False)),
    st.tuples(st.just("second hop"), _names, st.booleans()),
)


@settings(max_examples=12, deadline=None)
@given(
    start=st.lists(st.tuples(_names, st.booleans()), min_size=1, max_size=10),
    changes=st.lists(st.lists(_changes, max_size=3), min_size=1, max_size=8),
    depth=st.integers(1, 2),
    page_size=st.integers(1, 3),
)
def test_pages_show_the_neighbours_of_the_first_request(
    start: list[tuple[str, bool]],
    changes: list[list[tuple[str, Any, bool]]],
    depth: int,
    page_size: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live = LiveNode(Path(folder) / "data")
        try:
            facts = [link(live, name, to=to)["id"] for name, to in start]
            params = {"depth": depth, "min_trust": 0.1, "min_confidence": 0.3}
            whole = ask(live, **params, page_size=200).json()
            assert whole["next_cursor"] is None
            page = ask(live, **params, page_size=page_size).json()
            seen = list(page["neighbors"])
            turn = 0
            while page["next_cursor"] is not None:
                for change in changes[turn % len(changes)]:
                    _carry_out(live, change, facts)
                turn += 1
                page = ask(live, **params, page_size=page_size, cursor=page["next_cursor"]).json()
                assert page["total_hint"] == whole["total_hint"]
                seen += page["neighbors"]
            assert seen == whole["neighbors"]
        finally:
            live.close()


def _carry_out(live: LiveNode, change: tuple[str, Any, bool], facts: list[str]) -> None:
    what, given, flag = change
    if what == "insert":
        facts.append(link(live, given, to=flag)["id"])
    elif what == "second hop":
        live.state(entity=f"user:{given}", relation="rel:knows", type="ref", v="user:far",
                   confidence=0.9 if flag else 0.2)  # fmt: skip
    elif what == "retract":
        live.call("POST", f"/v1/facts/{facts[given % len(facts)]}/retract", json={})
    elif what == "decay":
        live.call("POST", "/v1/decay/sweep", json={"ttl_seconds": given})
    else:
        body = {"source": "stigmem://t/agent/a", "trust": given}
        live.call("PUT", "/v1/trust/sources", key=CONTROL_TOKEN, json=body)


def test_a_page_has_20_neighbours_by_default(live: LiveNode) -> None:
    for number in range(21):
        link(live, f"n{number}")
    page = ask(live).json()
    assert (len(page["neighbors"]), page["total_hint"]) == (20, 21)


def test_a_cursor_expires_after_its_time(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(1_800_000_000_000_000)
    live = serve(clock=clock, cursor_ttl_s=60)
    for name in "abc":
        link(live, name)
    cursor = ask(live, page_size=1).json()["next_cursor"]
    clock.advance(59_999_999)
    assert ask(live, page_size=1, cursor=cursor).status_code == 200
    clock.advance(1)
    late = ask(live, page_size=1, cursor=cursor)
    assert (late.status_code, late.json()["detail"]["code"]) == (400, "cursor_expired")


def test_a_cursor_is_opaque_signed_and_of_one_question(live: LiveNode) -> None:
    for name in "abc":
        link(live, name)
    cursor = ask(live, page_size=1).json()["next_cursor"]
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    for place in (0, 15, 16, len(raw) - 1):
        forged = bytearray(raw)
        forged[place] ^= 1
        text = base64.urlsafe_b64encode(forged).rstrip(b"=").decode()
        answer = ask(live, page_size=1, cursor=text)
        assert (answer.status_code, answer.json()["detail"]["code"]) == (400, "invalid_cursor")
    for other in ({"depth": 2}, {"scope": "public"}, {"relation_filter": "rel:*"},
                  {"min_confidence": 0.2}, {"min_trust": 0.2}, {"entity": "user:x"}):  # fmt: skip
        assert ask(live, **{"cursor": cursor, **other}).json()["detail"]["code"] == "invalid_cursor"
    assert ask(live, page_size=2, cursor=cursor).status_code == 200, "the size may change"


def test_a_cursor_survives_a_restart(serve: Callable[..., LiveNode], tmp_path: Path) -> None:
    first = LiveNode(tmp_path / "kept")
    for name in "abc":
        link(first, name)
    cursor = ask(first, page_size=1).json()["next_cursor"]
    first.close()
    second = LiveNode(tmp_path / "kept")
    try:
        rest = ask(second, page_size=5, cursor=cursor).json()
        assert [each["entity"] for each in rest["neighbors"]] == ["user:b", "user:c"]
    finally:
        second.close()


def test_the_reach_of_a_key_bounds_the_walk(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    wide = live.mint("read", "write", entity="stigmem://t/agent/a")
    narrow = live.mint("read", entity="agent:n", scopes=["public"])
    link(live, "near", key=wide)
    hidden, none = (
        live.call("GET", "/v1/graph/neighbors", key=narrow,
                  params={"entity": entity, "scope": "company"}).json()
        for entity in (HUB, "user:unknown")
    )  # fmt: skip
    assert {**hidden, "entity": ""} == {**none, "entity": ""}


# -- events from peers ---------------------------------------------------------------------


class Federated(World):
    """A world with some facts from a peer."""

    peer: str | None = None

    def _append(self, payload: Any, recorded_at: int) -> None:
        if self.peer is None:
            super()._append(payload, recorded_at)
            return
        apply = self.image.apply

        def received(events: list[Recorded], position: int) -> None:
            (event,) = events
            stream = stream_name(str(self.peer), 1, scope_partition(payload.scope))
            header = msgspec.structs.replace(event.header, stream=stream)
            apply([msgspec.structs.replace(event, peer=self.peer, header=header)], position)

        self.image.apply = received  # type: ignore[method-assign]
        try:
            super()._append(payload, recorded_at)
        finally:
            del self.image.apply  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("permissions", "reached"),
    [({"read"}, ["bob"]), ({"read", "federate"}, ["bob", "eve", "far"])],
)
def test_edges_of_peers_are_for_those_who_may_see_them(
    permissions: set[str], reached: list[str]
) -> None:
    world = Federated()
    world.ref(user("alice"), "rel:knows", user("bob"))
    world.peer = "stigmem:node:peer"
    world.ref(user("alice"), "rel:knows", user("eve"))
    world.peer = None
    world.ref(user("eve"), "rel:knows", user("far"))
    rights = Authorization("agent:r", frozenset(permissions), frozenset(SCOPES))
    query = NeighborQuery(entity=user("alice"), scope="company", depth=2)
    page = neighbors(world.view(), query, rights, world.moment())
    assert [each.entity.rsplit("/", 1)[1] for each in page.neighbors] == reached
    assert page.total == len(reached)
    if "eve" in reached:
        # a bare name from a peer has no authority of its own: agent:tester has none
        assert page.neighbors[1].source_trust == 0.255


@pytest.mark.parametrize("order", [1, -1, 7919])
def test_a_hub_is_paged_in_order_of_names(order: int) -> None:
    world = World()
    count = 3 * SAMPLE_NAMES + 7
    for n in range(count):
        world.ref(user("hub"), "rel:has", user(f"n{n * order % count:05d}"))
    query = NeighborQuery(entity=user("hub"), scope="company", page_size=200)
    seen: list[str] = []
    while True:
        page = neighbors(world.view(), query, reader(), world.moment())
        seen += [each.entity for each in page.neighbors]
        if page.next is None:
            break
        query = msgspec.structs.replace(query, after=page.next)
    assert seen == [user(f"n{n:05d}") for n in range(count)]


def test_walks_follow_no_edge_that_a_resolution_set_aside(tmp_path: Path) -> None:
    """As lists show it at each moment."""
    live = LiveNode(tmp_path / "data")
    one, two = (
        live.state(entity=HUB, relation="test:boss", type="ref", v=f"user:{name}", source=name)
        for name in ("agent:a", "agent:b")
    )
    live.state(entity=two["value"]["v"], relation="test:boss", type="ref", v="user:far")
    (conflict,) = live.call("GET", "/v1/conflicts").json()["conflicts"]
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    before = live.call("GET", "/readyz").json()["position"]
    assert live.call("POST", path, json={"winning_fact_id": one["id"]}).status_code == 200
    for more, reached in (({}, 1), ({"as_of": f"position:{before}"}, 3)):
        found = ask(live, depth=2, **more).json()
        assert found["total_hint"] == len(found["neighbors"]) == reached
    live.close()
