"""Lines of an import file about gardens and their members, and their commands."""

from collections.abc import Callable
from uuid import UUID, uuid4

from msgspec import Struct

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.rights import SLUG
from engramlog.api.transfer.lines.base import IMPORT_ACTOR, Line, LineError, line_uri
from engramlog.eventlog.kinds import GardenCreated, Scope
from engramlog.projections.tables.declared.garden_directory import Garden
from engramlog.projections.writing.commands import Command, DeleteGarden

EVERY_GARDEN = "*"


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


class Destination(Struct, frozen=True):
    """What lines need of the node that takes them. ``find_garden``: by slug or id. ``position_of``:
    the position of an episode, by its key here."""

    value_bytes_max: int
    find_garden: Callable[[str], Garden | None]
    position_of: Callable[[str], int | None]

    def garden(self, name: str, where: str) -> Garden:
        """The garden of a slug or id. Raises LineError."""
        garden = self.find_garden(name)
        if garden is None:
            raise LineError(f"no garden {name!r}", where)
        return garden

    def garden_id(self, name: str | None, where: str) -> str | None:
        """Its id, if the line names one. Raises LineError."""
        return None if name is None else self.garden(name, where).id


def garden_command(line: GardenLine, node: Destination) -> Command:
    """Create or delete a garden. Raises LineError."""
    if line.remove:
        return DeleteGarden(garden_id=node.garden(line.slug, "slug").id)
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
