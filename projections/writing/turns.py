"""In which order the writer takes what waits: no small write waits for several large ones."""

from collections.abc import Sequence

from engramlog.projections.writing.submission import Submission

LARGE_COMMANDS = 1_000
"""A submission of more commands is a large one."""
GROUP_COMMANDS_MAX = 20_000


def in_turn(
    waiting: Sequence[Submission], last: str
) -> tuple[list[list[Submission]], list[Submission]]:
    """The groups to write next, and what waits on: all small submissions, then a large one, if
    possible of another caller than the ``last``. Those of one caller keep their order."""
    small: list[Submission] = []
    later: list[Submission] = []
    behind: set[str] = set()
    commands = 0
    for each in waiting:
        size = len(each.commands)
        if (
            each.actor in behind
            or size > LARGE_COMMANDS
            or (small and commands + size > GROUP_COMMANDS_MAX)
        ):
            behind.add(each.actor)
            later.append(each)
        else:
            small.append(each)
            commands += size
    groups = [small] if small else []
    if later:
        large = next((each for each in later if each.actor != last), later[0])
        later.remove(large)
        groups.append([large])
    return groups, later
