"""A peer's facts over HTTP, one page a request, each with a token of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlencode

import aiohttp

from engramlog.projections.http_exchange import HttpFault, exchange, whole_within
from engramlog.replay.stigmem.pulling import PeerFault, decode_body

PATH = "/v1/federation/facts"
ANSWER_SECONDS = 30.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024


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
    try:
        answer = await exchange(
            session,
            "GET",
            f"{url}?{urlencode(query)}",
            headers=headers,
            limits=whole_within(ANSWER_SECONDS),
            bytes_max=ANSWER_BYTES_MAX,
        )
    except HttpFault as fault:
        raise PeerFault(f"cannot reach {url}: {fault}") from fault
    if answer.status == 429:
        raise PeerBusy(_seconds(answer.headers.get("retry-after")))
    if answer.status != 200:
        words = answer.body[:200].decode(errors="replace")
        raise PeerFault(f"the peer answered {answer.status}: {words}")
    return await asyncio.to_thread(decode_body, answer.body)


def _seconds(text: str | None) -> float:
    try:
        return min(max(float(text or "1"), 0.1), 3600.0)
    except ValueError:
        return 1.0
