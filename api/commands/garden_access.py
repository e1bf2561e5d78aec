"""The garden that a request names, and whether its caller may know of it.

For callers who are not members, a garden does not exist (404, as if absent). For admins of the node
it exists, but its facts are forbidden (403).
"""

import re
from urllib.parse import urlsplit

from engramlog.api.commands.request_context import ReadingContext
from engramlog.api.http.errors import plain
from engramlog.projections.authorization import Authorization
from engramlog.projections.tables.declared.garden_directory import WRITING_ROLES, Garden

_URI = re.compile(r"stigmem://([^/]+)/garden/([^/]+)/?")


def authority(context: ReadingContext) -> str:
    """The node's name in garden URIs."""
    parts = urlsplit(context.service.settings.public_url)
    return (parts.netloc or parts.path).lower()


def garden_uri(context: ReadingContext, slug: str) -> str:
    return f"stigmem://{authority(context)}/garden/{slug}"


def known_garden(context: ReadingContext, name: str) -> Garden:
    """The garden of a slug, uuid or URI. Raises ApiError 404, the same for absent gardens and for
    those that the caller may not know of."""
    text = name.strip().lower()
    found = _URI.fullmatch(text)
    if found is not None:
        text = found[2] if found[1] == authority(context) else ""
    garden = context.node.reader.gardens.find(text)
    rights = context.authorization
    if garden is None or not (
        rights.every_garden or garden.id in rights.gardens or rights.may("admin")
    ):
        raise plain("garden_not_found")
    return garden


def entered_garden(context: ReadingContext, name: str) -> Garden:
    """A garden whose facts the caller may see. Raises ApiError 404; 403 for node admins."""
    garden = known_garden(context, name)
    rights = context.authorization
    if not rights.every_garden and garden.id not in rights.gardens:
        raise plain("not_a_member")
    return garden


def within(
    context: ReadingContext, authorization: Authorization, name: str | None
) -> Authorization:
    """The rights, narrowed to the garden in the request's filter, if any."""
    return authorization if name is None else authorization.within(entered_garden(context, name).id)


def swept_gardens(context: ReadingContext) -> tuple[str, ...]:
    """The gardens that this caller's sweep reaches: those it may write in, or ``*``."""
    rights = context.authorization
    if rights.every_garden:
        return ("*",)
    directory = context.node.reader.gardens
    gardens = [directory.find(garden_id) for garden_id in sorted(rights.gardens)]
    return tuple(
        garden.id
        for garden in gardens
        if garden is not None and garden.role(rights.principal) in WRITING_ROLES
    )
