from typing import Any, ClassVar

import numpy as np
import pytest

from engramlog.projections.arrays import F32
from engramlog.projections.moment import Moment
from engramlog.projections.recall.conversation.speakers import (
    SAID_MIN,
    PlainQuestion,
    question_vector,
    without_speakers,
)
from tests.worlds.recall_world import World, survey_of, user


def asked(world: World, query: str, *scopes: str, moment: Moment | None = None) -> PlainQuestion:
    at = survey_of(world, query, *scopes, moment=moment)
    return without_speakers(at)


def talk(world: World, name: str, times: int = SAID_MIN, **more: Any) -> list[int]:
    return [world.fact(user(name), "said", f"something {n}", **more) for n in range(times)]


def test_names_of_speakers_are_removed() -> None:
    world = World()
    talk(world, "ann")
    talk(world, "fahim-khan")
    assert asked(world, "What did Ann cook for Fahim's wife?") == PlainQuestion(
        "What did cook for wife?", ("Ann", "Fahim")
    )


def test_names_of_others_stay() -> None:
    world = World()
    talk(world, "ann", SAID_MIN - 1)
    for n in range(SAID_MIN):
        world.fact(user("rome"), f"memory:fact{n}", "a city")
        world.fact(user(f"u{n}"), "said", "I met Cyd")
    for query in ("Who is Ann?", "Where is Rome?", "Who met Cyd?", "what does ann cook?"):
        assert asked(world, query) == PlainQuestion(query)


def test_a_question_that_is_only_a_name_stays() -> None:
    world = World()
    talk(world, "ann")
    assert asked(world, "What about Ann?") == PlainQuestion("What about Ann?")


def test_a_hidden_speaker_does_not_count() -> None:
    world = World()
    talk(world, "ann", scope="team")
    assert asked(world, "What does Ann cook?").names == ()
    assert asked(world, "What does Ann cook?", "company", "team").names == ("Ann",)


def test_speakers_are_judged_as_of_the_moment() -> None:
    world = World()
    talk(world, "ann", SAID_MIN - 1)
    early = world.moment()
    (last,) = talk(world, "ann", 1)
    then = world.moment()
    world.retract(last)
    for moment, names in ((early, ()), (then, ("Ann",)), (world.moment(), ())):
        assert asked(world, "What does Ann cook?", moment=moment).names == names


class Known:
    """Vectors by text."""

    rows: ClassVar = {"cook": (1.0, 0.0, 0.0), "Ann": (0.0, 1.0, 0.0), "Bob": (0.0, 0.0, 1.0)}

    def query(self, text: str) -> F32:
        return np.array(self.rows[text], dtype=np.float32)


def test_a_question_is_compared_with_a_share_of_the_names() -> None:
    found = question_vector(Known(), PlainQuestion("cook", ("Ann", "Bob")), 0.5)  # pyright: ignore[reportArgumentType]
    # (1, 0, 0) + 0.5 × (0, 1, 1) / √2, of unit length
    expected = np.array([1.0, 0.5 / np.sqrt(2), 0.5 / np.sqrt(2)]) / np.sqrt(1.25)
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    alone = question_vector(Known(), PlainQuestion("cook"), 0.5)  # pyright: ignore[reportArgumentType]
    assert alone.tolist() == [1.0, 0.0, 0.0]
