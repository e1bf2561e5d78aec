"""Requests to a provider over HTTP: deadlines, retries with back-off, Retry-After, a breaker.

Requests block the calling thread. Redirects are not followed, so a key goes only to its host, and
messages never contain keys.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from engramlog.projections.embedding.errors import (
    ProviderRefused,
    ProviderUnavailable,
    UnknownModel,
)
from engramlog.projections.embedding.providers.breaker import CircuitBreaker
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.http_exchange import (
    BlockingHttp,
    HostHungUp,
    HttpAnswer,
    HttpFault,
    deadline_within,
)

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
MESSAGE_CHARACTERS_MAX = 300
ANSWER_BYTES_MAX = 256 * 1024 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Patience(Struct, frozen=True):
    """How long to try a request: ``timeout_seconds`` for one attempt from connecting to the last
    byte, ``attempts_max`` attempts, and pauses that double from ``pause_seconds`` up to
    ``pause_seconds_max``."""

    timeout_seconds: float
    attempts_max: int
    pause_seconds: float = 0.5
    pause_seconds_max: float = 30.0


PATIENCE: dict[Purpose, Patience] = {
    "document": Patience(timeout_seconds=60.0, attempts_max=5),
    "query": Patience(timeout_seconds=3.0, attempts_max=1),
}
"""Indexing can wait; a person with a question cannot."""


class HttpClient:
    """JSON requests to one provider.

    Args:
        base_url: ``http`` or ``https``; a key is sent over plain ``http`` to this machine only.
        key: bearer token, or None.
        patience: by purpose.
        sleep, jitter, now: injected for tests; by default ``close`` ends a sleep. ``jitter`` is
            uniform in [0, 1) and keeps many nodes from retrying at the same instant.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        patience: Mapping[Purpose, Patience] = PATIENCE,
        breaker: CircuitBreaker | None = None,
        sleep: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        url = urlsplit(base_url)
        if key is not None and url.scheme == "http" and url.hostname not in LOOPBACK:
            raise UnknownModel(f"{base_url!r} would send the API key unencrypted; use https")
        try:
            self._http = BlockingHttp(base_url, headers)
        except ValueError as fault:
            raise UnknownModel(str(fault)) from fault
        self._host = url.netloc.rpartition("@")[2]
        self._patience = dict(patience)
        self._breaker = breaker or CircuitBreaker(time.monotonic)
        self._closing = threading.Event()
        self._sleep = sleep or self._closing.wait
        self._jitter = jitter
        self._now = now

    def post(self, path: str, body: object, purpose: Purpose) -> bytes:
        """The body of a 200 answer. Raises ProviderUnavailable: no such answer within the patience
        for ``purpose``. ProviderRefused: the provider refused."""
        content = msgspec.json.encode(body)
        patience = self._patience[purpose]
        for attempt in range(1, patience.attempts_max + 1):
            wait = self._breaker.seconds_left()
            if wait > 0:
                raise ProviderUnavailable(
                    f"{self._host} failed repeatedly; paused for {wait:.0f} s more", wait
                )
            try:
                return self._attempt(path, content, patience)
            except ProviderUnavailable as fault:
                pause = self._pause(fault, attempt, patience)
                if pause is None or self._closing.is_set():
                    raise
                self._sleep(pause)
        raise AssertionError("attempts_max is at least 1")

    def close(self) -> None:
        """Close every connection; requests under way fail. Idempotent."""
        self._closing.set()
        self._http.close()

    def _attempt(self, path: str, content: bytes, patience: Patience) -> bytes:
        try:
            reply = self._exchange(path, content, patience.timeout_seconds)
        except HttpFault as fault:
            self._breaker.failed()
            raise ProviderUnavailable(f"{self._host} cannot be reached: {fault}") from fault
        message = f"{self._host} answered {reply.status}: {_message(reply.body)}"
        if reply.status == 200:
            self._breaker.succeeded()
            return reply.body
        if reply.status in RETRIED_STATUSES and not _out_of_credit(reply):
            self._breaker.failed()
            raise ProviderUnavailable(message, self._retry_after(reply))
        self._breaker.succeeded()  # it is running, and would answer another request
        raise ProviderRefused(message)

    def _exchange(self, path: str, content: bytes, timeout_seconds: float) -> HttpAnswer:
        limits = deadline_within(timeout_seconds)
        try:
            return self._http.ask(
                "POST", path, content=content, limits=limits, bytes_max=ANSWER_BYTES_MAX
            )
        except HostHungUp:  # it closed an idle connection: retry on a new one
            return self._http.ask(
                "POST", path, content=content, limits=limits, bytes_max=ANSWER_BYTES_MAX
            )

    def _pause(self, fault: ProviderUnavailable, attempt: int, patience: Patience) -> float | None:
        """Seconds before the next attempt, or None without one."""
        if attempt >= patience.attempts_max:
            return None
        longest = patience.pause_seconds_max
        if fault.retry_after_seconds is not None:
            # For a longer requested pause the caller itself retries later.
            asked = fault.retry_after_seconds
            return None if asked > longest else asked + self._jitter() * patience.pause_seconds
        backed_off = min(longest, patience.pause_seconds * 2.0 ** (attempt - 1))
        return backed_off * (0.5 + 0.5 * self._jitter())

    def _retry_after(self, reply: HttpAnswer) -> float | None:
        """Seconds from a Retry-After header of either form; None without a usable one."""
        given = (reply.headers.get("retry-after", "")).strip()
        if given.isdecimal():
            return float(given)
        try:
            at = parsedate_to_datetime(given)
        except ValueError:
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.fromtimestamp(self._now(), UTC)).total_seconds())


class _Flat(Struct):
    error: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        return self.error or self.detail


class _Inner(Struct):
    message: str


class _Nested(Struct):
    error: _Inner

    @property
    def text(self) -> str:
        return self.error.message


def _message(body: bytes) -> str:
    """The message in an error body: Ollama's ``error``, OpenAI's ``error.message``, Voyage's
    ``detail``, or its first characters."""
    for shape in (_Flat, _Nested):
        try:
            text = msgspec.json.decode(body, type=shape).text
        except msgspec.DecodeError:
            continue
        if text:
            return text[:MESSAGE_CHARACTERS_MAX]
    return body[:MESSAGE_CHARACTERS_MAX].decode("utf-8", "replace") or "nothing"


def _out_of_credit(reply: HttpAnswer) -> bool:
    """OpenAI also answers 429 for an empty account; a retry does not help then."""
    return reply.status == 429 and b'"insufficient_quota"' in reply.body
