"""Large answers as gzip, for clients that take it."""

from __future__ import annotations

import asyncio
import gzip

from aiohttp import web

COMPRESSED_FROM_BYTES = 4_096
"""Smaller bodies gain less than it costs."""
_LEVEL = 5


async def compress(request: web.Request, response: web.StreamResponse) -> None:
    """Compress the body, where it is large, at hand, and the client asks for it."""
    if not isinstance(response, web.Response) or "Content-Encoding" in response.headers:
        return
    body = response.body
    if not isinstance(body, bytes) or len(body) < COMPRESSED_FROM_BYTES:
        return
    response.headers.add("Vary", "Accept-Encoding")
    if takes_gzip(request.headers.get("Accept-Encoding", "")):
        response.body = await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
        response.headers["Content-Encoding"] = "gzip"


def takes_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` names gzip and does not refuse it."""
    for each in accepted.lower().split(","):
        name, _, quality = each.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
