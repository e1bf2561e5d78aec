"""The two facts that represent a conflict: the same as by the plain definition, in work that does
not grow with the square of a key's values."""

from hypothesis import given

from engramlog.projections.contradictions.conflicts import OpenValues
from engramlog.projections.image.view import View, everything
from tests.worlds.counted_work import work
from tests.worlds.recall_world import World, reader
from tests.worlds.timed_facts import TimedFact, facts, world_of

RIGHTS = reader()


def plain(view: View, slot: int) -> tuple[int, int] | None:
    """The newest claim of the fact's value that overlaps one of a value claimed later, and the
    newest such one."""
    siblings = [s for s in range(view.count) if view.key[s] == view.key[slot]]
    last = {
        value: max(view.hlc[s] for s in siblings if view.value[s] == value)
        for value in {view.value[s] for s in siblings}
    }
    pairs = [
        (view.hlc[own], view.hlc[rival], rival, own)
        for own in siblings
        for rival in siblings
        if view.value[own] == view.value[slot]
        and last[view.value[rival]] > last[view.value[own]]
        and view.valid_from[rival] < view.valid_until[own]
        and view.valid_from[own] < view.valid_until[rival]
    ]
    return max(pairs)[2:] if pairs else None


@given(facts)
def test_the_same_as_by_the_plain_definition(stated: list[TimedFact]) -> None:
    world = world_of(stated)
    view = world.view()
    found = OpenValues(view, world.moment(), RIGHTS)
    for slot in range(view.count):
        assert found.sides(slot) == plain(view, slot)


def apart(size: int) -> World:
    """No two are valid at once."""
    return world_of([(0, n, n, 0, 1.0, 3 * n, 2) for n in range(size)])


def test_twice_the_values_without_a_conflict_are_about_twice_the_work() -> None:
    small, large = apart(100), apart(200)
    once, twice = (
        work(world.view(), lambda view, world=world: judged(view, world))
        for world in (small, large)
    )
    assert twice < 2.5 * once


def judged(view: View, world: World) -> None:
    found = OpenValues(view, world.moment(), RIGHTS)
    for slot in everything(view).tolist():
        assert found.sides(slot) is None
