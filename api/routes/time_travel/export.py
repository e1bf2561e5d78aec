"""The log as import lines over HTTP, limited to the caller's rights."""

from collections.abc import Iterator
from itertools import islice

from aiohttp import web

from engramlog.api.http.auth import require
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Media, Routes
from engramlog.api.schemas.model import Model
from engramlog.api.transfer.export_rights import Readable
from engramlog.api.transfer.exporting import export_lines

routes = Routes("audit")


class ExportQuery(Model, extra="forbid"):
    """``declarations``: include policies, trust, rules, aliases and other settings of admins."""

    declarations: bool = False


LINES_AT_ONCE = 500
CONTENT_TYPE = "application/x-ndjson"


@routes.add(
    "GET /v1/export",
    permission="read",
    answers={200: Media(CONTENT_TYPE, "JSON lines")},
    errors=(503,),
)
async def export(call: Call, query: ExportQuery) -> web.StreamResponse:
    """Lines as ``engramlog export`` writes them, of everything up to now."""
    if query.declarations:
        require(call.caller, "admin")
    lines = await call.in_long_pool(lambda: _lines(call, declarations=query.declarations))
    some = await call.in_long_pool(lambda: _next(lines), admitted=True)
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
    await response.prepare(call.request)
    while some:
        await response.write(some)
        some = await call.in_long_pool(lambda: _next(lines), admitted=True)
    await response.write_eof()
    return response


def _lines(call: Call, *, declarations: bool) -> Iterator[tuple[int, bytes]]:
    view = call.view()
    # With a model's rights: facts that the sanitizer withholds leave the node by no other way
    # either.
    rights = call.model_authorization
    sieve = Readable(call.node.reader, view, rights, declarations=declarations)
    return export_lines(call.node.log, view.position, sieve=sieve)


def _next(lines: Iterator[tuple[int, bytes]]) -> bytes:
    return b"".join(line for _, line in islice(lines, LINES_AT_ONCE))
