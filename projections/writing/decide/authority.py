"""Who may end, hide or weaken a fact: the one rule for every command.

Allowed: the fact's source, a key that covers the source, a node's ``admin``, and the moderators of
the fact's garden. ``docs/ending-facts.md`` has the table.
"""

from engramlog.projections.authorization import Authorization
from engramlog.projections.tables.declared.garden_directory import MODERATING_ROLES, WRITING_ROLES
from engramlog.projections.writing.commands import CommandRefused, Refused
from engramlog.projections.writing.decide.context import Context
from engramlog.projections.writing.decide.declared.gardens import role_of, write_forbidden


def check_source(rights: Authorization | None, source: str) -> None:
    """Raises CommandRefused without authority over a source's facts."""
    if rights is not None and not rights.may_end(source):
        raise source_forbidden(source)


def source_forbidden(source: str) -> CommandRefused:
    """The refusal without authority over a source's facts."""
    message = f"this key may not end facts of source {source!r}"
    return CommandRefused(Refused("source_forbidden", message))


def covers_scope(rights: Authorization | None, scope: str) -> bool:
    """Whether the caller may touch facts of a scope."""
    return rights is None or scope in rights.scopes


def check_ending(
    context: Context,
    rights: Authorization | None,
    source: str,
    garden_id: str | None,
    absent: Refused,
) -> None:
    """Raises CommandRefused if a fact of this source and garden may not be ended; ``absent`` if the
    caller may not know its garden."""
    if garden_id is not None:
        role = role_of(context, rights, garden_id)
        if role in MODERATING_ROLES:
            return
        if role not in WRITING_ROLES:
            raise CommandRefused(absent if role is None else write_forbidden(role))
    check_source(rights, source)


def moderates(context: Context, rights: Authorization | None, garden_id: str | None) -> bool:
    return garden_id is not None and role_of(context, rights, garden_id) in MODERATING_ROLES
