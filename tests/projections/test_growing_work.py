"""Twice the relations or keys are about twice the work, where each is judged by itself."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from engramlog.api.commands.decay_sweep import reach_of
from engramlog.eventlog.kinds import DecayPolicy, DecaySwept, FactAsserted, Value
from engramlog.projections.cards.inputs import AskedCard, card_inputs
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View, everything
from engramlog.projections.memories.deduplication_rules import MEMORY_RELATION
from engramlog.projections.moment import Moment
from engramlog.projections.recall.conversation.layouts import SAID_MIN, are_discussed
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.matching_facts import surviving
from engramlog.projections.recall.stages import dates
from engramlog.projections.tables.facts.cards import CardKey
from engramlog.projections.tables.facts.decay import DecayPart
from engramlog.projections.writing.comparison_window import recent_memories
from tests.worlds.counted_work import work
from tests.worlds.recall_world import NOW_US, SOURCE, World, reader, survey_of, user

POLICY = DecayPolicy(id="old", mode="retract", ttl_s=1.0)


def of_many_keys(keys: int, values: int, valid_until: str | None = None) -> World:
    """Facts about one entity, under so many relations with so many values each."""
    world = World()
    for n in range(keys * values):
        world.fact(user("a"), f"memory:r{n % keys}", f"v{n}", age_days=9.0, valid_until=valid_until)
    return world


def ended(view: View, moment: Moment) -> object:
    swept = DecaySwept(scope="company", at_us=NOW_US, policies=[POLICY])
    return DecayPart().ended_by(view, swept, moment.position + 1)


def reached(view: View, moment: Moment) -> object:
    return reach_of(view, reader(), moment, [POLICY])


def in_a_card(view: View, moment: Moment) -> object:
    return card_inputs(AskedCard(view, CardKey(user("a"), "company"), reader(), moment))


@pytest.mark.parametrize(("read", "values"), [(ended, 1), (reached, 1), (in_a_card, 2)])
def test_each_relation_of_an_entity(read: Callable[[View, Moment], object], values: int) -> None:
    once, twice = (
        work(world.view(), lambda view, world=world: read(view, world.moment()))
        for world in (of_many_keys(300, values), of_many_keys(600, values))
    )
    assert twice < 2.5 * once


def remembering(older: int) -> int:
    """Work of finding an owner's memories of the last minute beside so many older ones."""
    world = World()
    for n in range(older):
        world.fact(user("a"), MEMORY_RELATION, f"memory {n}", age_days=1.0)
    recent = world.fact(user("a"), MEMORY_RELATION, "just now")
    fact = FactAsserted(user("a"), MEMORY_RELATION, Value("text", "now"), SOURCE, "company")

    def read(view: View) -> None:
        assert recent_memories(view, reader(), world.moment(), fact) == [recent]

    return work(world.view(), read)


def test_of_an_owners_older_memories_only_the_age_is_read() -> None:
    assert remembering(1_100) - remembering(100) <= 3 * 1_000


def partly_apart(keys: int) -> World:
    """Each key has two values valid at once, and one later."""
    world = of_many_keys(keys, 2, valid_until="2090-01-01T00:00:00Z")
    for n in range(keys):
        world.fact(user("a"), f"memory:r{n}", "late", valid_from="2091-01-01T00:00:00Z")
    return world


def test_each_key_whose_facts_are_valid_at_different_times() -> None:
    once, twice = (
        work(
            world.view(),
            lambda view, world=world: are_contradicted(
                view, everything(view), world.moment(), reader()
            ),
        )
        for world in (partly_apart(300), partly_apart(600))
    )
    assert twice < 2.5 * once


def discussing(others: int) -> int:
    """Work of telling whether two sources discuss a key that so many others state once."""
    world = World()
    for n in range(2 * SAID_MIN):
        world.fact(user("a"), "chat:turn", f"I said this as number {n}", source=f"s:{n % 2}")
    for n in range(others):
        world.fact(user("a"), "chat:turn", f"I say this once, as number {n}", source=f"o:{n}")
    found = survey_of(world, "")
    asked = np.arange(2 * SAID_MIN, dtype=np.int32)

    def read(view: View) -> None:
        counted = msgspec.structs.replace(found, view=view)
        keys, voices = view.key[asked], view.voices(asked)
        assert all(are_discussed(counted, keys, voices))

    return work(world.view(), read)


def test_of_a_discussed_keys_other_voices_none_is_listed() -> None:
    assert discussing(1_200) - discussing(200) <= 18 * 1_000


def of_sixty_years(question: str) -> int:
    """Work of the stage of dates over facts of sixty years."""
    world = World()
    for n in range(600):
        world.fact(user("a"), f"memory:r{n}", "tea", valid_from=f"{1960 + n % 60}-05-01T00:00:00Z")
    found = survey_of(world, question)
    return work(
        world.view(),
        lambda view: dates.run(msgspec.structs.replace(found, view=view), dates.Parameters(), {}),
    )


def test_each_named_day_of_sixty_years() -> None:
    one, eight = "May 3", ", ".join(f"May {day}" for day in range(3, 11))
    # A day of each year takes a few lines of its own; it reads no fact.
    assert of_sixty_years(eight) - of_sixty_years(one) <= 7 * 60 * 60


def test_what_held_then_is_added_to_what_holds_now() -> None:
    world = World()
    for n in range(500):
        world.fact(
            user("a"), f"memory:r{n}", "tea",
            valid_from=f"{2000 + n % 10}-01-01T00:00:00Z",
            valid_until=f"{2001 + n % 10}-01-01T00:00:00Z",
        )  # fmt: skip
    view, moment = world.view(), world.moment()
    present = work(view, lambda view: surviving(view, reader(), moment, Filters()))
    spans = [(year * 31_557_600_000_000, (year + 1) * 31_557_600_000_000) for year in (30, 33)]
    again = [
        work(view, lambda view, held=held: surviving(view, reader(), moment, Filters(held=held)))
        for held in spans
    ]
    assert max(again) < present
