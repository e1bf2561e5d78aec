"""Facts to state, with their content ids."""

from typing import Any

import msgspec

from engramlog.projections.cid import compute_cid
from engramlog.projections.writing.commands import AssertFact


def stated(command: AssertFact, **fields: Any) -> AssertFact:
    """The command with other fields, and the content id that belongs to them."""
    changed = msgspec.structs.replace(command, **fields)
    cid = compute_cid(
        entity=changed.entity,
        relation=changed.relation,
        value=changed.value,
        source=changed.source,
        confidence=changed.confidence,
        scope=changed.scope,
    )
    return msgspec.structs.replace(changed, cid=cid)
