"""What recall caches about a set of facts, in bounded memory."""

import tracemalloc

from engramlog.projections.recall.matching_facts import DERIVED_CHARS_MAX, DERIVED_MAX
from tests.worlds.recall_world import World, survey_of, user

QUESTION_CHARS = 20_000


def test_long_questions_take_no_more_than_so_many_characters() -> None:
    world = World()
    world.fact(user("ann"), "is", "here")
    kept = survey_of(world, "ann").surviving.survivors
    tracemalloc.start()
    for n in range(4 * DERIVED_CHARS_MAX // QUESTION_CHARS):
        kept.derived(("subject names", f"{n:0{QUESTION_CHARS}}"), list)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 2 * DERIVED_CHARS_MAX


def test_short_questions_are_kept_up_to_their_number() -> None:
    kept = survey_of(World(), "ann").surviving.survivors
    found: list[int] = []
    for n in [*range(DERIVED_MAX), *range(DERIVED_MAX)]:
        kept.derived(("speaker", f"word {n}"), lambda n=n: found.append(n))
    assert found == list(range(DERIVED_MAX))
