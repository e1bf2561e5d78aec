"""Facts of few keys that are valid at different times."""

from hypothesis import strategies as st

from tests.worlds.recall_world import World, user

TimedFact = tuple[int, int, int, int, float, int, int]
"""Key, value, source, seconds ago, confidence, beginning and length; length 9 has no end."""

facts = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from([1.0, 1.0, 0.5]),
        st.integers(0, 8),
        st.sampled_from([1, 2, 5, 9]),
    ),
    max_size=14,
)


def instant(hour: int) -> str:
    return f"2090-01-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"


def world_of(stated: list[TimedFact]) -> World:
    world = World()
    for key, value, source, ago, confidence, begins, lasts in stated:
        world.fact(
            user("x"), f"memory:r{key}", f"value {value}", source=f"agent:{source}",
            confidence=confidence, age_days=ago / 86_400, valid_from=instant(begins),
            valid_until=None if lasts == 9 else instant(begins + lasts),
        )  # fmt: skip
    return world
