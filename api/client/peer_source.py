"""A peer's facts over HTTP: one page per request, each with its own token."""

import asyncio
import math
from collections.abc import Callable
from urllib.parse import urlencode

from engramlog.api.client.webhook_addresses import address_fault, checked_connector
from engramlog.projections.http_exchange import (
    AnswerCut,
    AnswerTooLarge,
    HttpFault,
    deadline_within,
    exchange,
    open_session,
)
from engramlog.replay.stigmem.peer_token import explained
from engramlog.replay.stigmem.pulling import PAGE_FACTS, PeerFault, PeerForbids, decode_body

PATH = "/v1/federation/facts"
ANSWER_SECONDS = 30.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
PAGE_BYTES_MAX = 8 * 1024 * 1024
"""Larger pages are asked for with fewer facts: decoding one holds the interpreter."""
FEWER_TIMES = 8


class LargeAnswer(PeerFault):
    """A peer's answer has more bytes than were asked for, or than the link carries."""


class PeerBusy(PeerFault):
    """The peer requests a pause of ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the peer requests a pause of {seconds:g} s")
        self.seconds = seconds


class HttpFactSource:
    """Implements ``FactSource``. ``token`` makes a peer token for one request."""

    def __init__(self, session: "PeerSession", url: str, token: Callable[[], str]) -> None:
        self._session = session
        self._url = url.rstrip("/") + PATH
        self._token = token
        self._facts = PAGE_FACTS

    async def page(self, scope: str, cursor: str | None, limit: int) -> object:
        query = {"scope": scope} | ({} if cursor is None else {"cursor": cursor})
        while True:
            size = min(limit, self._facts)
            asked = {**query, "limit": str(size)}
            most = ANSWER_BYTES_MAX if size == 1 else PAGE_BYTES_MAX
            try:
                page = await self._session.fetch(self._url, asked, self._token(), most)
            except LargeAnswer:
                if size == 1:
                    raise
                self._facts = max(1, size // FEWER_TIMES)
            else:
                self._facts = size * FEWER_TIMES
                return page


class PeerSession:
    """Requests to peers, created and closed in a running loop. ``private``: whether peers may use
    plain http and private addresses; every connection checks its address."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._session = open_session(connector=checked_connector(private=private))

    async def fetch(
        self, url: str, query: dict[str, str], token: str, bytes_max: int = PAGE_BYTES_MAX
    ) -> object:
        """A peer's answer to one request. Raises PeerFault."""
        if address_fault(url, private=self._private) is not None:
            raise PeerFault(f"{url} is no address that a peer may have")
        headers = {"Authorization": f"Bearer {token}", "Stigmem-Verify": "full"}
        try:
            answer = await exchange(
                self._session,
                "GET",
                f"{url}?{urlencode(query)}",
                headers=headers,
                limits=deadline_within(ANSWER_SECONDS),
                bytes_max=bytes_max,
            )
        except (AnswerTooLarge, AnswerCut) as fault:
            raise LargeAnswer(f"{url}: {fault}") from fault
        except HttpFault as fault:
            raise PeerFault(f"cannot reach {url}: {fault}") from fault
        if answer.status == 429:
            raise PeerBusy(_seconds(answer.headers.get("retry-after")))
        if answer.status != 200:
            words = answer.body[:200].decode(errors="replace")
            shape = PeerForbids if answer.status == 403 else PeerFault
            raise shape(f"the peer answered {answer.status}: {explained(words)}")
        return await asyncio.to_thread(decode_body, answer.body)

    async def close(self) -> None:
        await self._session.close()


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or "1")
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(seconds) else min(max(seconds, 0.1), 3600.0)
