"""``engramlog promote``: a replica becomes an independent node."""

from engramlog.api.cli.requests import Request, says
from engramlog.api.cli.subcommands import Subcommands

EXAMPLES = """\
The replica stops following and takes writes under its own identity: a new origin. Events of
the old primary that this replica does not have stay there; send it no more writes.

examples:
  engramlog promote --data copy
"""

PROMOTE = Request(
    "POST /v1/replication/promote",
    says(
        "{node_id} takes writes from position {position} on; it was a replica of {was_replica_of}"
    ),
)


def register(commands: Subcommands) -> None:
    commands.reaching("promote", "turn a replica into a primary", PROMOTE, EXAMPLES, json=False)
