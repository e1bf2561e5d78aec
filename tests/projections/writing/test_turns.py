"""Small writes do not wait for the large ones of others, and callers take turns with large ones."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.writing.submission import Submission
from engramlog.projections.writing.turns import GROUP_COMMANDS_MAX, LARGE_COMMANDS, in_turn
from tests.worlds.histories import asserted

LARGE = LARGE_COMMANDS + 1


def waits(actor: str, size: int) -> Submission:
    commands: list[Any] = [None] * size
    return Submission(commands, actor, None, None, False)


def order(waiting: list[Submission]) -> list[list[Submission]]:
    """All groups until nothing waits."""
    done: list[list[Submission]] = []
    served: dict[str, int] = {}
    while waiting:
        groups, waiting = in_turn(waiting, served)
        done += groups
    return done


def test_small_ones_come_first_and_large_ones_by_turns() -> None:
    a, b, c = (waits("busy", LARGE) for _ in range(3))
    small, large, after = waits("ann", 1), waits("bob", LARGE), waits("busy", 1)
    assert order([a, b, c, small, large, after]) == [[small], [a], [large], [b], [c], [after]]


def test_callers_of_many_small_ones_leave_room_to_others() -> None:
    many = [waits(actor, LARGE_COMMANDS) for _ in range(60) for actor in ("busy", "eager")]
    small = waits("ann", 1)
    groups = order([*many, small])
    assert groups[0] == [*many[:2], small]
    assert groups[1:] == [many[n : n + 2] for n in range(2, 120, 2)]


def test_a_third_caller_has_its_turn_with_a_large_one() -> None:
    waiting = [waits(actor, LARGE) for actor in ("a", "a", "a", "b", "b", "b", "c")]
    assert "".join(each.actor for (each,) in order(waiting)) == "abcabab"


def test_holders_of_one_issuers_tokens_share_its_turns() -> None:
    def token(holder: str) -> Submission:
        return Submission([None] * LARGE, holder, None, None, False, queued_as="issuer")  # type: ignore[list-item]

    waiting = [*(token(holder) for holder in "abc"), waits("ann", LARGE), waits("bob", LARGE)]
    assert "".join(each.actor[0] for (each,) in order(waiting)) == "aabbc"


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from((1, 900, LARGE, 15_000))), max_size=40
    )
)
def test_every_submission_is_written_once_in_its_callers_order(
    sizes: list[tuple[str, int]],
) -> None:
    waiting = [waits(*each) for each in sizes]
    groups = order(waiting)
    written = [each for group in groups for each in group]
    assert len(written) == len(waiting)
    for actor in "abc":
        of_actor = [each for each in written if each.actor == actor]
        assert of_actor == [each for each in waiting if each.actor == actor]
    for group in groups:
        assert len(group) == 1 or sum(len(each.commands) for each in group) <= GROUP_COMMANDS_MAX


@pytest.mark.parametrize("also", [False, True], ids=["alone", "after exclusive work"])
def test_a_small_write_waits_for_one_large_one_at_most(node: Node, also: bool) -> None:
    free, answered = threading.Event(), list[str]()
    node.writer.exclusive(free.wait)

    def take(name: str, actor: str, size: int) -> Submission:
        commands = [asserted(value=Value("string", f"{name} {n}")) for n in range(size)]
        submission = Submission(commands, actor, None, None, False)
        submission.answer.add_done_callback(lambda _: answered.append(name))
        node.writer.take(submission)
        return submission

    taken = [take(f"large {n}", "agent:busy", LARGE) for n in range(3)]
    if also:
        node.writer.exclusive(lambda: answered.append("exclusive"))
    taken.append(take("small", "agent:ann", 1))
    taken.append(take("last", "agent:busy", 1))
    assert node.writer.waiting == 5 + also
    free.set()
    for each in taken:
        assert len(each.answer.result(60).outcomes) == len(each.commands)
    early = ["large 0", "exclusive", "small"] if also else ["small", "large 0"]
    assert answered == [*early, "large 1", "large 2", "last"]
    assert node.writer.waiting == 0
