"""Facts to state, with their content ids."""

from typing import Any

import msgspec

from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.cid import with_cid
from engramlog.projections.writing.commands import AssertFact


def stating(**fields: Any) -> AssertFact:
    """The command that states a fact with these fields."""
    return AssertFact(with_cid(FactAsserted(**fields)))


def stated(command: AssertFact, **fields: Any) -> AssertFact:
    """The command with other fields of the fact, and the content id that belongs to them."""
    fact = with_cid(msgspec.structs.replace(command.fact, **fields))
    return msgspec.structs.replace(command, fact=fact)
