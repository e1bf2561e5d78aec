"""Requests to other machines: aiohttp's client, with limits on every answer as a whole.

``exchange`` is for coroutines. ``BlockingHttp`` is for threads that wait: it runs the same code in
a shared event loop. So another thread can end a wait, and a host that sends slowly for ever, even
in its headers, blocks no thread. Redirects are not followed: a key goes only to its host.
"""

import asyncio
import errno
import os
import select
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import finalize

import aiohttp
from msgspec import Struct
from yarl import URL

_UNREACHABLE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
ANSWER_BYTES_MAX = 64 * 1024 * 1024
_CLOSED = "the connection was closed here"

Result = TypeVar("Result")


class HttpFault(Exception):
    """No complete answer came; the message says why."""


class HostHungUp(HttpFault):
    """The host closed a kept connection before it answered."""


class HostAway(HttpFault):
    """No host took the connection: it got no request."""


class AnswerCut(HttpFault):
    """An answer began, but did not come whole."""


class AnswerSlow(AnswerCut):
    """An answer did not come whole in time."""


class AnswerTooLarge(HttpFault):
    """The answer is larger than requested."""


class AnswerLimits(Struct, frozen=True):
    """How long an answer may take, beyond the wait requested from the host. After
    ``silence_seconds`` without a byte the request ends. After the same time an average under
    ``bytes_per_second`` ends it, and after ``whole_seconds`` it ends in any case."""

    silence_seconds: float = 30.0
    whole_seconds: float = 120.0
    bytes_per_second: float = 4_096.0

    def until(self, began: float, received: int, now: float) -> float:
        """When to give up an answer that began at ``began`` and has this many bytes by ``now``."""
        earned = self.silence_seconds + received / self.bytes_per_second
        return min(began + min(earned, self.whole_seconds), max(began, now) + self.silence_seconds)


def deadline_within(seconds: float) -> AnswerLimits:
    """One deadline from connecting to the last byte."""
    return AnswerLimits(seconds, seconds, float("inf"))


class HttpAnswer(Struct, frozen=True):
    """A complete answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def open_session(**options: Any) -> aiohttp.ClientSession:
    """A session for ``exchange``; the caller closes it. Requests answers without compression."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None),
        skip_auto_headers=("Accept-Encoding", "User-Agent"),
        auto_decompress=False,
        **options,
    )


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    content: bytes | None = None,
    limits: AnswerLimits,
    bytes_max: int = ANSWER_BYTES_MAX,
    waited_seconds: float = 0.0,
) -> HttpAnswer:
    """The complete answer to one request. ``waited_seconds``: how long the host may delay the
    answer. Raises HttpFault: none came within the limits, or the answer does not give its
    length."""
    begun = False
    loop = asyncio.get_running_loop()
    began = loop.time() + waited_seconds
    data = bytearray()
    try:
        async with (
            asyncio.timeout_at(limits.until(began, 0, began)) as limit,
            session.request(
                method,
                URL(url, encoded=True),
                data=content,
                headers=headers,
                allow_redirects=False,
            ) as response,
        ):
            _check_length(response, bytes_max)
            begun = True
            async for part in response.content.iter_any():
                data += part
                if len(data) > bytes_max:
                    raise AnswerTooLarge(f"the answer is larger than {bytes_max} bytes")
                limit.reschedule(limits.until(began, len(data), loop.time()))
            named = {name.lower(): value for name, value in response.headers.items()}
            return HttpAnswer(response.status, named, bytes(data))
    except TimeoutError as fault:
        message = "no complete answer in time: it comes too slowly"
        raise (AnswerSlow if begun else HttpFault)(message) from fault
    except (aiohttp.ClientError, OSError) as fault:
        if begun:
            raise AnswerCut(_describe(fault)) from fault
        raise _unanswered(fault) from fault
    except ValueError as fault:
        raise HttpFault(_describe(fault)) from fault


def _unanswered(fault: Exception) -> HttpFault:
    if isinstance(fault, aiohttp.ServerDisconnectedError | ConnectionResetError | BrokenPipeError):
        return HostHungUp(_describe(fault))
    kind = HostAway if isinstance(fault, aiohttp.ClientConnectorError) else HttpFault
    return kind(_describe(fault))


def _check_length(response: aiohttp.ClientResponse, bytes_max: int) -> None:
    announced = response.content_length
    if announced is not None and announced > bytes_max:
        raise AnswerTooLarge(f"the answer is larger than {bytes_max} bytes")
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    if announced is None and not chunked and response.status not in (204, 304):
        raise HttpFault("the answer does not say how long it is")


def proxy_for(url: str) -> str | None:
    """The environment's proxy for https; plain http connects directly."""
    parts = urlsplit(url)
    proxy = urlsplit(getproxies().get("https", ""))
    if parts.scheme != "https" or not proxy.hostname or proxy_bypass(parts.hostname or ""):
        return None
    return f"http://{proxy.netloc}"


class BlockingHttp:
    """Requests to one host, from any thread; keeps connections open between them.

    Args:
        url: ``http`` or ``https``, with the path prefix of all requests.
        headers: of every request.
        connector: makes the connector without a proxy; None allows any address.

    Raises:
        ValueError: ``url`` is invalid.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        connector: Callable[[], aiohttp.BaseConnector] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// URL")
        self.url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._proxy = proxy_for(url)
        self._connector = connector
        self._lock = threading.Lock()
        self._under_way: set[Future[Any]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def begin(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        limits: AnswerLimits,
        bytes_max: int = ANSWER_BYTES_MAX,
        waited_seconds: float = 0.0,
    ) -> Future[HttpAnswer]:
        """Send a request; ``answer_of`` waits for its answer. Raises HttpFault once closed."""

        async def run() -> HttpAnswer:
            return await exchange(
                self._opened(),
                method,
                self.url + path,
                headers={**self._headers, **(headers or {})},
                content=content,
                limits=limits,
                bytes_max=bytes_max,
                waited_seconds=waited_seconds,
            )

        return self._start_in_loop(run())

    def ask(self, method: str, path: str, **options: Any) -> HttpAnswer:
        """The answer to a request; ``options`` as in ``begin``. Raises HttpFault."""
        return answer_of(self.begin(method, path, **options))

    def parts(self, path: str, limits: AnswerLimits) -> Iterator[bytes]:
        """The body of a 200 answer in parts, for bodies too long for memory; ``limits`` apply to
        each part. Another status comes as the first part. Raises HttpFault."""

        async def head() -> aiohttp.ClientResponse:
            async with asyncio.timeout(limits.silence_seconds):
                return await self._opened().get(
                    URL(self.url + path, encoded=True), headers=self._headers, allow_redirects=False
                )

        async def part() -> bytes:
            async with asyncio.timeout(limits.silence_seconds):
                return await response.content.readany()

        response = answer_of(self._start_in_loop(head()))
        try:
            if response.status != 200:
                raise HttpFault(f"it answered {response.status}")
            while data := answer_of(self._start_in_loop(part())):
                yield data
        finally:
            background_loop().call_soon_threadsafe(response.close)

    def close(self) -> None:
        """Close every connection, also during a request. Idempotent."""
        with self._lock:
            self._closed = True
            ending = list(self._under_way)
        for future in ending:
            future.cancel()
        asyncio.run_coroutine_threadsafe(self._end(), background_loop()).result()

    def _start_in_loop(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        with self._lock:
            if self._closed:
                work.close()
                raise HttpFault(_CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, background_loop())
            self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            direct = None if self._proxy is not None else self._connector
            self._session = open_session(
                connector=None if direct is None else direct(), proxy=self._proxy
            )
            loop = asyncio.get_running_loop()
            finalize(self, _end_forgotten, self._session, loop, os.getpid()).atexit = False
        return self._session

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _end_forgotten(
    session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop, process: int
) -> None:
    """Close the session of an object that was not closed, unless another process made it."""
    if process == os.getpid():
        asyncio.run_coroutine_threadsafe(session.close(), loop)


def answer_of(future: Future[Result]) -> Result:
    """The outcome of a request from ``begin``. Raises HttpFault."""
    try:
        return future.result()
    except CancelledError as fault:
        raise HttpFault(_CLOSED) from fault
    except TimeoutError as fault:
        raise HttpFault("no answer in time") from fault
    except (aiohttp.ClientError, OSError) as fault:
        raise HttpFault(_describe(fault)) from fault


# A finalizer of the user may ask for the loop within a call that does.
_loop_lock = threading.RLock()
_thread = threading.local()


def in_background() -> bool:
    """Whether this thread is the background loop's, or of its pool."""
    return getattr(_thread, "of_loop", False)


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop of all blocking requests; its thread ends with the process."""
    with _loop_lock:  # a second loop could never use the sessions of the first
        return _started_loop()[0]


@cache
def _started_loop() -> tuple[asyncio.AbstractEventLoop, selectors.DefaultSelector]:
    selector = selectors.DefaultSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="http", initializer=_of_loop))
    threading.Thread(target=_run_for_ever, args=(loop,), name="http", daemon=True).start()
    return loop, selector


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    _of_loop()
    while True:
        # These two end a loop: of a user's log handler, say. All callers would wait for ever.
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()


def _of_loop() -> None:
    _thread.of_loop = True


def _begin_again() -> None:
    if _started_loop.cache_info().currsize:
        _leave_to_parent(*_started_loop())
    _started_loop.cache_clear()
    _loop_lock.release()


def _leave_to_parent(loop: asyncio.AbstractEventLoop, selector: selectors.DefaultSelector) -> None:
    """Let a child drop its copies of the parent's connections. An epoll is shared with the parent,
    which would hear no more of a connection that the child takes from it: the child gets another
    under the same number."""
    loop.set_exception_handler(_ignore)  # gets each copy that was not closed
    if sys.platform == "linux":
        with select.epoll() as own:
            os.dup2(own.fileno(), selector.fileno(), inheritable=False)


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None: ...


# A forked child has the loop without its thread: a caller would wait for it forever.
os.register_at_fork(
    before=_loop_lock.acquire, after_in_parent=_loop_lock.release, after_in_child=_begin_again
)


def _describe(fault: BaseException) -> str:
    code = fault.os_error.errno if isinstance(fault, aiohttp.ClientConnectorError) else None
    if code in _UNREACHABLE:  # aiohttp's words name addresses that the caller knows
        return os.strerror(code)
    return str(fault) or type(fault).__name__
