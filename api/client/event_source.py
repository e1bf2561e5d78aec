"""A peer's streams over HTTP, for the thread that replays it (``pulling.PeerSource``)."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlencode

import msgspec

from engramlog.api.client.client import failure_of
from engramlog.api.client.page_size import PageSize
from engramlog.api.client.webhook_addresses import address_fault, checked_connector
from engramlog.eventlog.signing import SignedHeads
from engramlog.projections.http_exchange import (
    AnswerLimits,
    AnswerTooLarge,
    BlockingHttp,
    HttpAnswer,
    HttpFault,
    answer_of,
)
from engramlog.replay.federation.comparing import PeerDigests
from engramlog.replay.federation.page import (
    PAGE_BYTES_MAX,
    PAGE_EVENTS_MAX,
    PageFault,
    StreamPage,
    decode_page,
)
from engramlog.replay.federation.pulling import PeerUnreachable
from engramlog.replay.stigmem.peer_token import explained

STREAMS_PATH = "/v1/federation/streams"
EVENTS_PATH = "/v1/federation/events"
DIGESTS_PATH = "/v1/federation/digests"
HEADS_BYTES_MAX = 64 * 1024 * 1024
_LIMITS = AnswerLimits()


class Woken(Exception):
    """This side ended the wait for new heads: the request may have changed."""


class HttpPeerSource:
    """Keeps connections open; each request carries its own token. After a full page, requests the
    next at once, so that the peer reads it while this node takes the first.

    ``wait_seconds``: how long the peer should withhold unchanged heads. ``private``: whether the
    peer may use plain http and private addresses; every connection checks its address.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str],
        limits: AnswerLimits = _LIMITS,
        *,
        private: bool = True,
    ) -> None:
        if address_fault(url, private=private) is not None:
            raise PeerUnreachable(f"{url} is no address that a peer may have")
        try:
            self._http = BlockingHttp(url, connector=lambda: checked_connector(private=private))
        except ValueError as fault:
            raise PeerUnreachable(str(fault)) from fault
        self.url = self._http.url
        self.wait_seconds = 0.0
        self._token = token
        self._limits = limits
        self._size = PageSize(PAGE_EVENTS_MAX)
        self._seen = ""
        self._waking = threading.Event()
        self._held: Future[HttpAnswer] | None = None
        self._ahead: tuple[str, Future[HttpAnswer]] | None = None

    def heads(self) -> SignedHeads:
        """See ``PeerSource``; waits for heads that differ from the last ones. Raises Woken."""
        at_once = self._waking.is_set() or not self._seen
        self._waking.clear()
        wait = 0.0 if at_once else self.wait_seconds
        query = {"seen": "" if at_once else self._seen, "wait_s": wait}
        held = self._held = self._begun(_target(STREAMS_PATH, query), HEADS_BYTES_MAX, wait)
        if wait and self._waking.is_set():
            held.cancel()
        try:
            answer = self._answered(held)
        except PeerUnreachable as fault:
            if held.cancelled() and self._waking.is_set():
                raise Woken from fault
            raise
        finally:
            self._held = None
        try:
            statement = msgspec.json.decode(answer.body, type=SignedHeads)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            raise PageFault("malformed", f"cannot read the heads: {fault}") from fault
        self._seen = answer.headers.get("etag", "")
        return statement

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        return self._size.fetched(limit, lambda size: self._page(stream, after_seq, size, limit))

    def _page(self, stream: str, after_seq: int, size: int, limit: int) -> StreamPage | None:
        body = self._get(_page_target(stream, after_seq, size), PAGE_BYTES_MAX).body
        if not body:
            return None
        page = decode_page(body)
        if len(page.events) == limit:
            target = _page_target(stream, after_seq + limit, limit)
            self._ahead = target, self._begun(target, PAGE_BYTES_MAX)
        return page

    def digests(self) -> PeerDigests:
        """Digests of the peer's streams and tombstones, and of its copies of ours."""
        answer = self._answered(self._begun(_target(DIGESTS_PATH, {}), HEADS_BYTES_MAX), (404,))
        if answer.status == 404:
            raise PeerUnreachable(
                f"{self.url} has no digests to compare: it runs an earlier or another release"
            )
        try:
            given = msgspec.json.decode(answer.body, type=dict[str, Any])
            lacking = [name for name in PeerDigests.__struct_fields__ if name not in given]
            if "digests" in given and lacking:
                raise PeerUnreachable(
                    f"{self.url} runs an earlier release, whose digests lack {', '.join(lacking)}:"
                    " update it, then compare"
                )
            return msgspec.convert(given, PeerDigests)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            raise PeerUnreachable(f"cannot read the digests of {self.url}: {fault}") from fault

    def forget(self) -> None:
        """Do not wait for changed heads the next time."""
        self._seen = ""

    def wake(self) -> None:
        """``forget``, and end a current wait; from any thread."""
        self._waking.set()
        held = self._held
        if held is not None:
            held.cancel()

    def close(self) -> None:
        """End the connection, even during a request. Idempotent."""
        self._http.close()

    def _get(self, target: str, most: int) -> HttpAnswer:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == target:
            return self._answered(ahead[1])
        if ahead is not None:
            ahead[1].cancel()  # its answer is obsolete
        return self._answered(self._begun(target, most))

    def _answered(self, pending: Future[HttpAnswer], accept: Sequence[int] = ()) -> HttpAnswer:
        try:
            answer = answer_of(pending)
        except AnswerTooLarge as fault:
            raise PageFault("oversized", str(fault)) from fault
        except HttpFault as fault:
            raise PeerUnreachable(f"cannot reach {self.url}: {fault}") from fault
        if answer.status not in (200, 204, *accept):
            raise self._refusal(answer)
        return answer

    def _begun(self, target: str, most: int, waited_seconds: float = 0.0) -> Future[HttpAnswer]:
        try:
            return self._http.begin(
                "GET",
                target,
                headers={"Authorization": f"Bearer {self._token()}"},
                limits=self._limits,
                bytes_max=most,
                waited_seconds=waited_seconds,
            )
        except HttpFault as fault:
            raise PeerUnreachable(str(fault)) from fault

    def _refusal(self, answer: HttpAnswer) -> Exception:
        try:
            failure = failure_of(answer.status, msgspec.json.decode(answer.body))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return PeerUnreachable(f"{self.url} answered {answer.status}")
        return PeerUnreachable(f"{self.url} answered {answer.status}: {explained(str(failure))}")


def _page_target(stream: str, after: int, limit: int) -> str:
    return _target(EVENTS_PATH, {"stream": stream, "after": after, "limit": limit})


def _target(path: str, query: Mapping[str, object]) -> str:
    return f"{path}?{urlencode(query)}"
