"""``engramlog promote``: a replica becomes an independent node."""

import argparse

from engramlog.api.console.arguments import add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands

EXAMPLES = """\
The replica stops following and takes writes under its own identity: a new origin. Events of
the old primary that this replica does not have stay there; send it no more writes.

examples:
  engramlog promote --data copy
"""


def register(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add("promote", "turn a replica into a primary", EXAMPLES, run_promote)
    add_target_arguments(parser)


def run_promote(args: argparse.Namespace) -> int:
    """Promote the replica, running or not."""
    with reach(args) as client:
        answer = client.post("/v1/replication/promote")
    print(
        f"{answer['node_id']} takes writes from position {answer['position']} on; "
        f"it was a replica of {answer['was_replica_of']}"
    )
    return 0
