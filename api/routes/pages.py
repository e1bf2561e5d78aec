"""The page for people at ``/ui``: static, of this node alone."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from aiohttp import web

from api.call import Call

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


async def ui(_: Call) -> web.Response:
    """Search, recall, cards, conflicts and timelines, on one page that needs nothing from
    elsewhere. It holds no data: its reader's key decides what it shows."""
    body, policy = _page()
    return web.Response(
        body=body,
        content_type="text/html",
        charset="utf-8",
        headers={
            "Content-Security-Policy": policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-cache",
        },
    )


@cache
def _page() -> tuple[bytes, str]:
    """The page and its policy: its own style and script by their hashes, and nothing else."""
    body = files("api").joinpath("web", "ui.html").read_bytes()
    hashes: dict[str, list[str]] = {"style": [], "script": []}
    for tag, text in _INLINE.findall(body.decode()):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[tag].append(f"'sha256-{digest}'")
    policy = (
        f"default-src 'none'; style-src {' '.join(hashes['style'])}; "
        f"script-src {' '.join(hashes['script'])}; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    return body, policy
