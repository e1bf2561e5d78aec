"""The console at ``/ui``: built files of this node only, under a strict policy.

The page contains no data: its reader's key decides what it shows. Requests can fetch only the built
files' names, so no path leads outside.
"""

from functools import cache
from importlib.resources import files

from aiohttp import web

from engramlog.api.http.call import Call
from engramlog.api.http.errors import plain
from engramlog.api.http.routing import Routes

routes = Routes("node")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_DEMO = "demo.jsonl"
"""The demo's history, which the page writes into an empty node."""
_TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "jsonl": "application/x-ndjson",
}
_PAGE = "index.html"
_PLAIN = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>engramlog</title>
<h1>The console is not built</h1>
<p>Run <code>make setup</code> in a checkout of engramlog, with a package registry in reach, and
start the node again. A released wheel carries the console.</p>
<p>Everything else works: <a href="/docs">the node's routes</a>.</p>
</html>
"""


@routes.add("GET /ui/", "GET /", permission="none", answers={302: None}, delegable=True)
async def start(_: Call) -> web.Response:
    """Redirect to the console."""
    return web.Response(status=302, headers={"Location": "/ui"})


@routes.add("GET /ui", permission="none", answers={200: None}, delegable=True)
async def console(_: Call) -> web.Response:
    """The console, or a page that says how to build it."""
    page = _built().get(_PAGE, _PLAIN.encode())
    return _answer("html", page, "no-cache")


@routes.add("GET /ui/{file}", permission="none", answers={200: None}, delegable=True)
def console_file(call: Call) -> web.Response:
    """A file of the console. Its name contains its hash, so browsers may cache it for ever."""
    name = call.segment("file")
    content = _built().get(name)
    if name == _DEMO:
        content = files("engramlog.api").joinpath("spaceflight", "events.jsonl").read_bytes()
    if content is None or name == _PAGE:
        raise plain("file_not_found")
    named_by_hash = not name.endswith((".txt", ".jsonl"))
    kept = "public, max-age=31536000, immutable" if named_by_hash else "no-cache"
    return _answer(name.rpartition(".")[2], content, kept)


def _answer(ending: str, content: bytes, kept: str) -> web.Response:
    return web.Response(
        body=content,
        content_type=_TYPES[ending],
        charset="utf-8",
        headers={**_HEADERS, "Cache-Control": kept},
    )


@cache
def _built() -> dict[str, bytes]:
    """The built files by name; empty without a build."""
    folder = files("engramlog.api").joinpath("web", "dist")
    if not folder.joinpath(_PAGE).is_file():
        return {}
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.is_file() and each.name.rpartition(".")[2] in _TYPES
    }
