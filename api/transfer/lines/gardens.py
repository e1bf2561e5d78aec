"""Lines of an import file about gardens and their members, and their commands."""

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID, uuid4

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.rights.gardens import SLUG
from engramlog.api.transfer.lines.base import IMPORT_ACTOR, Line, LineError, Scope, line_uri
from engramlog.eventlog.kinds import GardenCreated
from engramlog.projections.tables.declared.garden_directory import Garden
from engramlog.projections.writing.commands import Command, DeleteGarden

EVERY_GARDEN = "*"

FindGarden: TypeAlias = Callable[[str], Garden | None]
"""A garden by slug or id."""


class GardenLine(Line, frozen=True, kw_only=True, tag="garden"):
    """Creates a garden (``created_by`` is its first admin) or, with ``remove``, deletes it.

    ``id``: its former id, kept unless a garden here has it (a UUID)."""

    slug: str
    id: str | None = None
    name: str = ""
    scope: Scope = "company"
    description: str | None = None
    quarantine: bool = False
    created_by: str | None = None
    remove: bool = False


def garden_command(line: GardenLine, find: FindGarden) -> Command:
    """Create or delete a garden. Raises LineError."""
    if line.remove:
        return DeleteGarden(garden_id=garden_of(line.slug, find, "slug").id)
    if SLUG.fullmatch(line.slug) is None:
        raise LineError("must be lower-case letters, digits and hyphens, at most 63", "slug")
    return shaped(
        line,
        GardenCreated,
        name=line.name or line.slug,
        created_by=line_uri(line.created_by or IMPORT_ACTOR, "created_by"),
        garden_id=_garden_id(line.id) or str(uuid4()),
    )


def _garden_id(text: str | None) -> str | None:
    try:
        return None if text is None else str(UUID(text))
    except ValueError as fault:
        raise LineError("must be a UUID", "id") from fault


def garden_of(name: str, find: FindGarden, where: str) -> Garden:
    """The garden of a slug or id. Raises LineError."""
    garden = find(name)
    if garden is None:
        raise LineError(f"no garden {name!r}", where)
    return garden


def garden_id_of(name: str | None, find: FindGarden, where: str) -> str | None:
    """Its id, if the line names one. Raises LineError."""
    return None if name is None else garden_of(name, find, where).id
