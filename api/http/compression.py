"""Large answers as gzip, for clients that accept it."""

import asyncio
import gzip

from aiohttp import web

COMPRESSED_FROM_BYTES = 4_096
"""For smaller bodies, compression costs more than it saves."""
_LEVEL = 5


def is_large(response: web.Response) -> bool:
    """Whether the body is in memory, uncompressed, and worth compressing."""
    body = response.body
    return (
        isinstance(body, bytes)
        and len(body) >= COMPRESSED_FROM_BYTES
        and "Content-Encoding" not in response.headers
    )


async def compress(request: web.Request, response: web.Response) -> None:
    """Compress a large body if the client accepts it."""
    response.headers.add("Vary", "Accept-Encoding")
    if takes_gzip(request.headers.get("Accept-Encoding", "")):
        assert isinstance(response.body, bytes)
        response.body = await asyncio.to_thread(gzip.compress, response.body, _LEVEL, mtime=0)
        response.headers["Content-Encoding"] = "gzip"


def takes_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` names gzip and does not refuse it."""
    for each in accepted.lower().split(","):
        name, _, quality = each.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
