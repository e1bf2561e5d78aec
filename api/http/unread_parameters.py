"""Fields and parameters that nothing reads: named in the answer, with what may have been meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from aiohttp import web
from pydantic import BaseModel

HEADER = "X-Stigmem-Warning"
NAMED_MAX = 5
_LENGTH_MAX = 60


def parameters_of(model: type[BaseModel]) -> frozenset[str]:
    """What a query string may hold for the model."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def unread(name: str, known: Collection[str]) -> str:
    """The warning about one name."""
    meant = get_close_matches(name, known, 1)
    hint = f"; did you mean {meant[0]!r}?" if meant else ""
    return f"unknown field {name!r} is ignored{hint}"


def note_unread(response: web.StreamResponse, request: web.Request, known: frozenset[str]) -> None:
    """Name the parameters of the request that its route does not have in a header, which every
    answer has room for."""
    names = [name for name in dict.fromkeys(request.query) if name not in known]
    if names:
        warnings = [ascii(unread(name[:_LENGTH_MAX], known))[1:-1] for name in names[:NAMED_MAX]]
        response.headers[HEADER] = " | ".join(warnings)
