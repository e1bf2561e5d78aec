"""Requests to a provider over HTTP: deadlines, Retry-After, and a breaker. The embedding worker
retries; a person with a question cannot wait for another attempt.

Requests block the calling thread. Redirects are not followed, so a key goes only to its host, and
messages never contain keys.
"""

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
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.http_exchange import (
    BlockingHttp,
    HostHungUp,
    HttpAnswer,
    HttpFault,
    deadline_within,
)

PASSING_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
MESSAGE_CHARACTERS_MAX = 300
ANSWER_BYTES_MAX = 256 * 1024 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


TIMEOUT_SECONDS: dict[Purpose, float] = {"document": 60.0, "query": 3.0}
"""From connecting to the last byte."""
FAILURES_MAX = 5
COOL_DOWN_SECONDS = 30.0


class CircuitBreaker:
    """Closed until ``failures_max`` failures in a row; then open for ``cool_down_seconds``: no
    request goes out. After that, a single trial decides. Any success closes it."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        failures_max: int = FAILURES_MAX,
        cool_down_seconds: float = COOL_DOWN_SECONDS,
    ) -> None:
        self._monotonic = monotonic
        self._failures_max = failures_max
        self._cool_down_seconds = cool_down_seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_from = 0.0

    def seconds_left(self) -> float:
        """0 if a request may be sent, whose outcome must be reported; else how long to wait."""
        with self._lock:
            now = self._monotonic()
            if self._failures < self._failures_max:
                return 0.0
            if now < self._closed_from:
                return self._closed_from - now
            self._closed_from = now + self._cool_down_seconds  # others wait for this trial
            return 0.0

    def succeeded(self) -> None:
        """The provider answered."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """The provider did not answer."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._failures_max:
                self._closed_from = self._monotonic() + self._cool_down_seconds


class HttpClient:
    """JSON requests to one provider.

    Args:
        base_url: ``http`` or ``https``; a key is sent over plain ``http`` to this machine only.
        key: bearer token, or None.
        timeouts: of a request, in seconds, by purpose.
        breaker, now: injected for tests.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        timeouts: Mapping[Purpose, float] = TIMEOUT_SECONDS,
        breaker: CircuitBreaker | None = None,
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
        self._timeouts = timeouts
        self._breaker = breaker or CircuitBreaker(time.monotonic)
        self._now = now

    def post(self, path: str, body: object, purpose: Purpose) -> bytes:
        """The body of a 200 answer. Raises ProviderUnavailable: no such answer came in time.
        ProviderRefused: the provider refused."""
        wait = self._breaker.seconds_left()
        if wait > 0:
            raise ProviderUnavailable(
                f"{self._host} failed repeatedly; paused for {wait:.0f} s more", wait
            )
        try:
            reply = self._exchange(path, msgspec.json.encode(body), self._timeouts[purpose])
        except HttpFault as fault:
            self._breaker.failed()
            raise ProviderUnavailable(f"{self._host} cannot be reached: {fault}") from fault
        message = f"{self._host} answered {reply.status}: {_message(reply.body)}"
        if reply.status == 200:
            self._breaker.succeeded()
            return reply.body
        if reply.status in PASSING_STATUSES and not _out_of_credit(reply):
            self._breaker.failed()
            raise ProviderUnavailable(message, self._retry_after(reply))
        self._breaker.succeeded()  # it is running, and would answer another request
        raise ProviderRefused(message)

    def close(self) -> None:
        """Close every connection; requests under way fail. Idempotent."""
        self._http.close()

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
        except ValueError:
            continue
        if text:
            return text[:MESSAGE_CHARACTERS_MAX]
    return body[:MESSAGE_CHARACTERS_MAX].decode("utf-8", "replace") or "nothing"


def _out_of_credit(reply: HttpAnswer) -> bool:
    """OpenAI also answers 429 for an empty account; a retry does not help then."""
    return reply.status == 429 and b'"insufficient_quota"' in reply.body
