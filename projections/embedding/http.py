"""Asking a provider over HTTP: deadlines, retries with back-off, Retry-After, a breaker.

Requests block the calling thread. Nothing here follows redirects, so a key goes only where
it was meant to go, and keys never appear in messages.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException

import msgspec
from msgspec import Struct

from projections.embedding.breaker import CircuitBreaker
from projections.embedding.connections import Connections, Reply
from projections.embedding.errors import ProviderRefused, ProviderUnavailable
from projections.embedding.provider import Purpose

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
MESSAGE_CHARACTERS_MAX = 300


class Patience(Struct, frozen=True):
    """How long a request is tried: ``timeout_seconds`` for one attempt from connecting to
    the last byte, ``attempts_max`` attempts, and pauses that double from
    ``pause_seconds`` up to ``pause_seconds_max``."""

    timeout_seconds: float
    attempts_max: int
    pause_seconds: float = 0.5
    pause_seconds_max: float = 30.0


PATIENCE: dict[Purpose, Patience] = {
    "document": Patience(timeout_seconds=60.0, attempts_max=5),
    "query": Patience(timeout_seconds=3.0, attempts_max=1),
}
"""Indexing waits; a person who asked a question does not."""


class HttpClient:
    """JSON requests to one provider.

    Args:
        base_url: ``http`` or ``https``; a key is sent over plain ``http`` to this machine only.
        key: bearer token, or None.
        patience: by purpose.
        sleep, monotonic, jitter, now: seams for time and chance; ``jitter`` is uniform in
            [0, 1) and keeps many nodes from retrying at the same instant.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        patience: Mapping[Purpose, Patience] = PATIENCE,
        breaker: CircuitBreaker | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._connections = Connections(base_url, headers, monotonic, secret=key is not None)
        self._patience = dict(patience)
        self._breaker = breaker or CircuitBreaker(monotonic)
        self._sleep = sleep
        self._jitter = jitter
        self._now = now

    def post(self, path: str, body: object, purpose: Purpose) -> bytes:
        """The body of a 200 answer.

        Raises:
            ProviderUnavailable: no such answer within the patience for ``purpose``.
            ProviderRefused: the provider said no.
        """
        content = msgspec.json.encode(body)
        patience = self._patience[purpose]
        for attempt in range(1, patience.attempts_max + 1):
            wait = self._breaker.seconds_left()
            if wait > 0:
                raise ProviderUnavailable(
                    f"{self._host} failed repeatedly; not asked for {wait:.0f} s more", wait
                )
            try:
                return self._attempt(path, content, patience)
            except ProviderUnavailable as fault:
                pause = self._pause(fault, attempt, patience)
                if pause is None:
                    raise
                self._sleep(pause)
        raise AssertionError("attempts_max is at least 1")

    def close(self) -> None:
        """Close idle connections. Idempotent."""
        self._connections.close()

    @property
    def _host(self) -> str:
        return self._connections.host

    def _attempt(self, path: str, content: bytes, patience: Patience) -> bytes:
        try:
            reply = self._connections.post(path, content, patience.timeout_seconds)
        except (OSError, HTTPException) as fault:
            self._breaker.failed()
            reason = str(fault) or type(fault).__name__
            raise ProviderUnavailable(f"{self._host} cannot be reached: {reason}") from fault
        message = f"{self._host} answered {reply.status}: {_message(reply.body)}"
        if reply.status == 200:
            self._breaker.succeeded()
            return reply.body
        if reply.status in RETRIED_STATUSES and not _out_of_credit(reply):
            self._breaker.failed()
            raise ProviderUnavailable(message, self._retry_after(reply))
        self._breaker.succeeded()  # it is there, and would answer another request
        raise ProviderRefused(message)

    def _pause(self, fault: ProviderUnavailable, attempt: int, patience: Patience) -> float | None:
        """Seconds before the next attempt, or None where there is to be none."""
        if attempt >= patience.attempts_max:
            return None
        longest = patience.pause_seconds_max
        if fault.retry_after_seconds is not None:
            # Told to stay away for longer than anybody waits here: the caller comes back.
            asked = fault.retry_after_seconds
            return None if asked > longest else asked + self._jitter() * patience.pause_seconds
        backed_off = min(longest, patience.pause_seconds * 2.0 ** (attempt - 1))
        return backed_off * (0.5 + 0.5 * self._jitter())

    def _retry_after(self, reply: Reply) -> float | None:
        """Seconds from a Retry-After header of either form; None without a usable one."""
        given = (reply.retry_after or "").strip()
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
    """What an error body says: Ollama's ``error``, OpenAI's ``error.message``, Voyage's
    ``detail``, or its first characters."""
    for shape in (_Flat, _Nested):
        try:
            told = msgspec.json.decode(body, type=shape).text
        except msgspec.DecodeError:
            continue
        if told:
            return told[:MESSAGE_CHARACTERS_MAX]
    return body[:MESSAGE_CHARACTERS_MAX].decode("utf-8", "replace") or "nothing"


def _out_of_credit(reply: Reply) -> bool:
    """OpenAI says 429 also where the account is empty, which no waiting mends."""
    return reply.status == 429 and b'"insufficient_quota"' in reply.body
