"""The log as import lines over HTTP, limited to the caller's rights."""

from itertools import islice

from aiohttp import web

from engramlog.api.http.auth import require
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError
from engramlog.api.http.routing import Media, Routes
from engramlog.api.schemas.values import Model
from engramlog.api.transfer.export_names import Readable
from engramlog.api.transfer.exporting import export_lines
from engramlog.projections.image.reader import ErasedMeanwhile

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
    """Lines as ``engramlog export`` writes them, of everything up to now. If the caller may read
    less before the end, the connection breaks: repeat the request."""
    if query.declarations:
        require(call.caller, "admin")
    lines = await call.in_long_pool(lambda: _Lines(call, declarations=query.declarations))
    some = await call.in_long_pool(lines.next, admitted=True)
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
    await response.prepare(call.request)
    while some:
        await response.write(some)
        try:
            some = await call.in_long_pool(lines.next, admitted=True)
        except (ApiError, ErasedMeanwhile):
            # An error cannot follow lines, and an end would look like the export's.
            transport = call.request.transport
            if transport is not None:
                transport.abort()
            return response
    await response.write_eof()
    return response


class _Lines:
    """The lines of an export, some at a time."""

    def __init__(self, call: Call, *, declarations: bool) -> None:
        view = call.view()
        # With a model's rights: facts that the sanitizer withholds leave the node by no other way
        # either.
        rights = call.model_authorization
        self._sieve = Readable(call.node.reader, view, rights, declarations=declarations)
        self._lines = export_lines(call.node.log, view.position, sieve=self._sieve)

    def next(self) -> bytes:
        """The next lines; empty at the end. Raises ErasedMeanwhile if a part of the export, sent or
        not, is hidden now."""
        some = b"".join(line for _, line in islice(self._lines, LINES_AT_ONCE))
        if not self._sieve.renew():
            raise ErasedMeanwhile
        return some
