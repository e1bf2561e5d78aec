"""Who may end, hide or weaken a fact: the one rule for every command.

Allowed: the fact's source, a key that covers the source, a node's ``admin``, and the moderators of
the fact's garden. ``docs/ending-facts.md`` has the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engramlog.projections.tables.declared.garden_directory import (
    MODERATING_ROLES,
    WRITING_ROLES,
    Role,
    role_in,
)
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.declared.gardens import WRITE_FORBIDDEN

if TYPE_CHECKING:
    from engramlog.projections.authorization import Authorization
    from engramlog.projections.writing.decide.context import Context


def source_forbidden(source: str) -> Refused:
    """The refusal of callers without authority over a source's facts."""
    return Refused("source_forbidden", f"this key may not end facts of source {source!r}")


def ending_refusal(
    context: Context,
    rights: Authorization | None,
    member: str | None,
    source: str,
    garden_id: str | None,
    absent: Refused,
) -> Refused | None:
    """Why a fact may not be ended; ``absent`` if the caller may not know its garden.

    Args:
        rights: the caller's; None for the node's own tools, which may.
        member: the entity whose role in the garden counts; None for the machine's owner.
        source, garden_id: the fact's.
    """
    if garden_id is not None and member is not None:
        role = role_in(context.db, garden_id, member)
        if role is None:
            return absent
        if role in MODERATING_ROLES:
            return None
        if role not in WRITING_ROLES:
            return WRITE_FORBIDDEN
    return None if rights is None or rights.may_end(source) else source_forbidden(source)


def moderates(context: Context, garden_id: str | None, member: str | None) -> bool:
    """Whether a member moderates a garden."""
    if garden_id is None or member is None:
        return False
    role: Role | None = role_in(context.db, garden_id, member)
    return role in MODERATING_ROLES
