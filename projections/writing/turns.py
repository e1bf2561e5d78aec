"""In which order the writer takes what waits: no write waits for much of another caller."""

from collections import Counter
from collections.abc import Sequence

from engramlog.projections.writing.submission import Submission

LARGE_COMMANDS = 1_000
"""Of one caller in a group. A submission of more is a large one, and a group of its own."""
GROUP_COMMANDS_MAX = 20_000


def in_turn(
    waiting: Sequence[Submission], served: dict[str, int]
) -> tuple[list[list[Submission]], list[Submission]]:
    """The groups to write next, and what waits on: small submissions of every caller, then a large
    one, of the caller who waits longest for a turn. Those of one caller keep their order.
    ``served``: the last turn of each caller with a large one, which this keeps."""
    small: list[Submission] = []
    later: list[Submission] = []
    first: dict[str, Submission] = {}
    taken = Counter[str]()
    commands = 0
    for each in waiting:
        size = len(each.commands)
        if (
            each.queued_as in first
            or taken[each.queued_as] + size > LARGE_COMMANDS
            or commands + size > GROUP_COMMANDS_MAX
        ):
            first.setdefault(each.queued_as, each)
            later.append(each)
        else:
            small.append(each)
            taken[each.queued_as] += size
            commands += size
    groups = [small] if small else []
    large = [each for each in first.values() if len(each.commands) > LARGE_COMMANDS]
    if large:
        chosen = min(large, key=lambda each: served.get(each.queued_as, 0))
        served[chosen.queued_as] = max(served.values(), default=0) + 1
        later.remove(chosen)
        groups.append([chosen])
    return groups, later
