"""Connections from verbs to a node: one coroutine, in the background loop."""

import asyncio
import atexit
import os
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from msgspec import Struct

from engramlog.api.client.client import ClientError, bearer
from engramlog.api.http.error_codes import CODE_HEADER
from engramlog.projections.http_exchange import (
    AnswerLimits,
    BlockingHttp,
    HostAway,
    HostHungUp,
    HttpFault,
    background_loop,
    in_background,
)

Result = TypeVar("Result")

_LIMITS = AnswerLimits()
_THREADS = ("threading", "concurrent.futures.thread")
_VERBS = "engramlog.api.python."
"""The modules that users call, perhaps as the whole work of a thread."""
_open: WeakSet[BlockingHttp] = WeakSet()
_going_on: set[asyncio.Task[Any]] = set()
"""The loop itself keeps no task alive."""


class NodeAway(ClientError):
    """No node took the request."""


class SentRequest(Struct, frozen=True):
    """A request to a node. ``waited_seconds``: how long the node may take by the request itself."""

    method: str
    target: str
    content: bytes | None
    headers: dict[str, str]
    waited_seconds: float


class NodeAnswer(Struct, frozen=True):
    """A node's answer; ``code``: of a refusal, if it has one."""

    status: int
    body: bytes
    code: str


class Transport(Protocol):
    """A connection to one node."""

    place: str
    """The directory or URL, for people."""
    owner: str | None
    """The source of writes without one; None if the key decides."""

    async def exchange(self, request: SentRequest) -> NodeAnswer:
        """One request. Runs only in the background loop. Raises ClientError without an answer;
        NodeAway if the node got no request."""
        ...

    async def close(self) -> None:
        """Release the node. Idempotent."""
        ...


class HttpTransport:
    """Implements ``Transport`` for a remote node, by URL and key."""

    def __init__(self, url: str, key: str | None = None, owner: str | None = None) -> None:
        headers = {"Accept": "application/json"}
        if key:
            headers["Authorization"] = bearer(key)
        try:
            self._http = BlockingHttp(url, headers)
        except ValueError as fault:
            raise ClientError(str(fault)) from fault
        self.place = self._http.url
        self.owner = owner
        _open.add(self._http)

    async def exchange(self, request: SentRequest) -> NodeAnswer:
        """See ``Transport``. Writes have an idempotency key, so they can be repeated if the node
        has closed the connection."""
        try:
            try:
                return await self._once(request)
            except HostHungUp:
                return await self._once(request)
        except HttpFault as fault:
            kind = NodeAway if isinstance(fault, HostAway) else ClientError
            raise kind(f"cannot reach {self.place}: {fault}") from fault

    async def _once(self, request: SentRequest) -> NodeAnswer:
        future = self._http.begin(
            request.method, request.target, headers=request.headers, content=request.content,
            limits=_LIMITS, waited_seconds=request.waited_seconds,
        )  # fmt: skip
        answer = await asyncio.wrap_future(future)
        return NodeAnswer(answer.status, answer.body, answer.headers.get(CODE_HEADER.lower(), ""))

    async def close(self) -> None:
        await asyncio.to_thread(self._http.close)


def begun(work: Coroutine[Any, Any, Result]) -> Future[Result]:
    """Run a coroutine in the background loop. Raises ClientError if the process is at its end."""
    if sys.is_finalizing():  # the loop's thread does not run any more
        work.close()
        raise ClientError("this memory is closed: the process ends")
    return asyncio.run_coroutine_threadsafe(work, background_loop())


def waited(work: Coroutine[Any, Any, Result]) -> Result:
    """The outcome of a coroutine in the background loop. Raises RuntimeError in a thread that works
    for a memory: it would wait for itself."""
    if in_own_thread():
        work.close()
        raise RuntimeError(
            "a finalizer or a log handler runs in a thread of a memory, which cannot wait for one:"
            " use a memory in a thread of your own"
        )
    return begun(work).result()


def in_own_thread() -> bool:
    """Whether this thread works for a memory. Python runs finalizers of the user's objects, and
    their log handlers, in any thread."""
    if in_background():
        return True
    outermost, frame = "", sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # no other way
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        outermost = outermost if module in _THREADS else module
        frame = frame.f_back
    return outermost.startswith("engramlog.") and not outermost.startswith(_VERBS)


async def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """Work that continues to its end in the background loop, also if its caller is cancelled: a
    directory that is half open or half closed would stay locked."""
    task = asyncio.get_running_loop().create_task(work)
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
    return await asyncio.shield(task)


def _at_exit() -> None:
    """Close what a script left open: aiohttp would print a warning for each."""
    for each in list(_open):
        each.close()


atexit.register(_at_exit)
# The connections of the process that forked are its own.
os.register_at_fork(after_in_child=_open.clear)
os.register_at_fork(after_in_child=_going_on.clear)
