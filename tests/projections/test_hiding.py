"""Which tombstones hide some of a list of facts: the same as by asking each, in work that does not
grow with their number times the facts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns.tombstone_mask import Hiding, Tombstone
from engramlog.projections.image.view import View, everything
from engramlog.projections.normalization import SCOPES
from tests.worlds.counted_work import work
from tests.worlds.recall_world import World, user

entities = st.integers(0, 3).map(lambda n: user(f"e{n}"))
scopes = st.sampled_from(("local", "company"))


def stone(entity: str, *hidden: str, number: int = 0) -> Tombstone:
    return Tombstone(f"t{number}", entity, entity, frozenset(hidden), "", False, None)


def covers(each: Tombstone, view: View, slot: int, notes: dict[int, int]) -> bool:
    """By the rule: the fact is about its entity, points at it, or is a note about it."""
    number = view.entities.number(each.entity)
    about = (int(view.entity[slot]), int(view.object[slot]), notes.get(slot, -1))
    return number in about and SCOPES[view.scope[slot]] in each.scopes


@given(
    st.lists(st.tuples(entities, st.none() | entities, scopes), min_size=1, max_size=8),
    st.lists(st.tuples(entities, st.sets(scopes, min_size=1)), max_size=5),
    st.data(),
)
def test_the_same_as_by_asking_each(
    facts: list[tuple[str, str | None, str]],
    hidden: list[tuple[str, set[str]]],
    data: st.DataObject,
) -> None:
    world = World()
    for entity, target, scope in facts:
        if target is None:
            world.fact(entity, "is", "x", scope=scope)
        else:
            world.ref(entity, "knows", target, scope=scope)
    view = world.view()
    slots = st.integers(0, len(facts) - 1)
    notes = data.draw(st.dictionaries(slots, st.integers(0, len(view.entities) - 1), max_size=3))
    asked = np.array(data.draw(st.lists(slots, unique=True)), dtype=np.int32)
    stones = [stone(entity, *names, number=n) for n, (entity, names) in enumerate(hidden)]
    hiding = Hiding(stones, view.entities, notes)
    assert hiding.over(view, asked) == [
        each for each in stones if any(covers(each, view, s, notes) for s in asked.tolist())
    ]
    masked = [any(covers(each, view, s, notes) for each in stones) for s in range(view.count)]
    assert hiding.mask(None, view.entity, view.object, view.scope).tolist() == masked
    of_asked = hiding.mask(asked, view.entity[asked], view.object[asked], view.scope[asked])
    assert of_asked.tolist() == [masked[s] for s in asked.tolist()]


def noticing(size: int) -> int:
    """Work of finding which of so many tombstones hide some of as many facts."""
    world = World()
    for n in range(size):
        world.fact(user(f"e{n}"), "is", "x")
    view = world.view()
    stones = [stone(user(f"e{n}"), "company", number=n) for n in range(size)]
    hiding, slots = Hiding(stones, view.entities, {}), everything(view)

    def read(view: View) -> None:
        assert len(hiding.over(view, slots)) == size

    return work(view, read)


def test_twice_the_tombstones_and_facts_are_about_twice_the_work() -> None:
    assert noticing(400) < 2.5 * noticing(200)
