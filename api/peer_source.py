"""A peer's facts over HTTP, one page a request, each with a token of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from replay.protocol.pulling import PeerFault, decode_body

PATH = "/v1/federation/facts"
ANSWER_SECONDS = 30.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
_READ_BYTES = 1 << 16


class PeerBusy(PeerFault):
    """The peer asks to be left alone for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the peer asks to wait {seconds:g} s")
        self.seconds = seconds


class HttpFactSource:
    """Implements ``FactSource``. ``token`` makes a peer token for one request."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: Callable[[], str]) -> None:
        self._session = session
        self._url = url.rstrip("/") + PATH
        self._token = token

    async def page(self, cursor: str | None, limit: int) -> object:
        """See ``FactSource``."""
        query = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
        return await fetch_json(self._session, self._url, query, self._token())


async def fetch_json(
    session: aiohttp.ClientSession, url: str, query: dict[str, str], token: str
) -> object:
    """What a peer answers to one request. Raises PeerFault."""
    headers = {"Authorization": f"Bearer {token}", "Stigmem-Verify": "full"}
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    try:
        async with session.get(
            url, params=query, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            body = await _read(response)
            if response.status == 429:
                raise PeerBusy(_seconds(response.headers.get("Retry-After")))
            if response.status != 200:
                words = body[:200].decode(errors="replace")
                raise PeerFault(f"the peer answered {response.status}: {words}")
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        words = str(fault) or type(fault).__name__
        raise PeerFault(f"cannot reach {url}: {words}") from fault
    return await asyncio.to_thread(decode_body, body)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_chunked(_READ_BYTES):
        data += chunk
        if len(data) > ANSWER_BYTES_MAX:
            raise PeerFault(f"the peer's answer is over {ANSWER_BYTES_MAX} bytes")
    return bytes(data)


def _seconds(text: str | None) -> float:
    try:
        return min(max(float(text or "1"), 0.1), 3600.0)
    except ValueError:
        return 1.0
