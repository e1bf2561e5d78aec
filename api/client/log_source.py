"""A primary's log and snapshots over HTTP."""

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec

from engramlog.api.client.client import bearer, failure_of
from engramlog.api.client.page_size import PageSize
from engramlog.projections.http_exchange import AnswerLimits, BlockingHttp, HttpAnswer, HttpFault
from engramlog.replay.replication.follower import PrimaryUnreachable
from engramlog.replay.replication.page import (
    PAGE_BYTES_MAX,
    PAGE_EVENTS_MAX,
    CopyPage,
    Diverged,
    decode_page,
)
from engramlog.replay.snapshot import Snapshot, decode_snapshot

PATH = "/v1/replication/events"
SNAPSHOTS_PATH = "/v1/replication/snapshots"
SNAPSHOTS_BYTES_MAX = 16 * 1024 * 1024
LIMITS = AnswerLimits(silence_seconds=30.0, whole_seconds=600.0)
"""In addition to the requested wait."""


class HttpLogSource:
    """A primary's log and snapshots (``LogSource``, ``SnapshotSource``) over one connection, kept
    open. ``close`` works from another thread and ends a wait."""

    def __init__(self, url: str, key: str) -> None:
        self._http = BlockingHttp(url, {"Authorization": bearer(key)} if key else {})
        self.url = self._http.url
        self._size = PageSize(PAGE_EVENTS_MAX)

    def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
        given = {"after": after, "hash": after_hash.hex(), "wait_s": wait_seconds}

        def page(size: int) -> HttpAnswer:
            query = urlencode({**given, "limit": size})
            return self._get(f"{PATH}?{query}", PAGE_BYTES_MAX, wait_seconds)

        answer = self._size.fetched(limit, page)
        if answer.status != 200:
            raise self._refusal(answer)
        return decode_page(answer.body)

    def documents(self) -> list[Snapshot]:
        """See ``SnapshotSource``. Primaries of older releases have none."""
        answer = self._get(SNAPSHOTS_PATH, SNAPSHOTS_BYTES_MAX)
        if answer.status == 404:
            return []
        if answer.status != 200:
            raise self._refusal(answer)
        return [decode_snapshot(line) for line in answer.body.splitlines()]

    def contents(self, position: int) -> Iterator[bytes]:
        try:
            yield from self._http.parts(f"{SNAPSHOTS_PATH}/{position}", LIMITS)
        except HttpFault as fault:
            raise PrimaryUnreachable(f"cannot reach {self.url}: {fault}") from fault

    def close(self) -> None:
        """End the connection, even during a request. Idempotent."""
        self._http.close()

    def _get(self, target: str, most: int, waited_seconds: float = 0.0) -> HttpAnswer:
        try:
            return self._http.ask(
                "GET", target, limits=LIMITS, bytes_max=most, waited_seconds=waited_seconds
            )
        except HttpFault as fault:
            raise PrimaryUnreachable(f"cannot reach {self.url}: {fault}") from fault

    def _refusal(self, answer: HttpAnswer) -> Exception:
        try:
            failure = failure_of(answer.status, msgspec.json.decode(answer.body))
        except ValueError:
            return PrimaryUnreachable(f"{self.url} answered {answer.status}")
        if failure.code == "replication_diverged":
            return Diverged(str(failure))
        return PrimaryUnreachable(f"{self.url} answered {answer.status}: {failure}")
