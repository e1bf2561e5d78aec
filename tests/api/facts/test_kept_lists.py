"""What is kept for the next page of a list equals what would be found again."""

from collections.abc import Generator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.api.answers import fact_list
from engramlog.api.answers.fact_list import ListFilters, matching
from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, format_instant
from tests.worlds.recall_world import NOW_US, World

SECOND_US = 1_000_000
CALLERS = st.builds(
    Authorization,
    principal=st.sampled_from(["user:ann", "user:bob"]),
    permissions=st.sampled_from([frozenset({"read"}), frozenset({"read", "write"})]),
    scopes=st.sampled_from([frozenset({"company"}), frozenset({"company", "team"})]),
    sources=st.sampled_from([("*",), ("user:ann",)]),
    ceiling=st.integers(0, 2),
    every_garden=st.booleans(),
)
Facts = list[tuple[str, str, int, int | None]]
"""Scope, source, classification, and in how many seconds it expires."""
FACTS = st.lists(
    st.tuples(
        st.sampled_from(["company", "team"]),
        st.sampled_from(["user:ann", "user:bob"]),
        st.integers(0, 3),
        st.none() | st.integers(-2, 2),
    ),
    max_size=8,
)


@pytest.fixture(scope="module", autouse=True)
def everything_is_kept() -> Generator[None]:
    with mock.patch.object(fact_list, "KEPT_MIN", 0):
        yield


def view_of(facts: Facts) -> View:
    world = World()
    for n, (scope, source, level, seconds) in enumerate(facts):
        until = None if seconds is None else format_instant(NOW_US + seconds * SECOND_US)
        world.fact(
            f"thing:{n % 2}", "is", f"{n % 3}", scope=scope, source=source, valid_until=until,
            attributes=FactAttributes(classification=level),
        )  # fmt: skip
    return world.view()


@given(FACTS, st.lists(st.tuples(CALLERS, st.integers(-3, 3)), min_size=2, max_size=6))
def test_a_kept_list_is_the_one_found_again(
    facts: Facts, asked: list[tuple[Authorization, int]]
) -> None:
    keeping, fresh = view_of(facts), view_of(facts)
    for caller, seconds in asked:
        moment = Moment(keeping.position, NOW_US + seconds * SECOND_US)
        kept = matching(keeping, caller, moment, ListFilters()).slots
        fresh.remembered.clear()
        assert kept.tolist() == matching(fresh, caller, moment, ListFilters()).slots.tolist()


@given(FACTS, CALLERS, CALLERS)
def test_equal_readers_read_the_same_facts(
    facts: Facts, one: Authorization, other: Authorization
) -> None:
    view = view_of(facts)
    reader = one.as_reader(view)
    assert reader.mask(view).tolist() == one.mask(view).tolist()
    if reader == other.as_reader(view):
        assert other.mask(view).tolist() == one.mask(view).tolist()


def test_callers_with_other_keys_share_what_is_kept() -> None:
    view = view_of([("company", "user:ann", 1, None)])
    keys = [
        Authorization(f"user:{name}", frozenset({"read", *more}), frozenset({"company"}))
        for name, more in (("ann", ()), ("bob", ("write",)))
    ]
    moment = Moment(view.position, NOW_US)
    first, second = (matching(view, key, moment, ListFilters()).slots for key in keys)
    assert first is second
