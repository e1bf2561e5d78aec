"""Limits on connections to the node: how many, and how slow.

Open connections of unknown callers cost file descriptors, which the log needs too. A connection
beyond the limits gets 503 and closes. A connection also closes, without an answer, if it sends its
header too slowly, stalls in a body, stays idle, or does not take its answer. The limits do not
apply to a request's own work: once the node has read the body, the caller need not send anything.
"""

import asyncio
import resource
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import cast

from aiohttp import web

HEADER_SECONDS_MAX = 10.0
"""From a request's first byte, or from the connection's start, to the end of its header."""
IDLE_SECONDS_MAX = 75.0
"""Between two requests."""
WINDOW_SECONDS = 10.0
BODY_BYTES_PER_WINDOW_MIN = 4_096
"""What a body must bring in each window in which the node reads."""
STALLED_WINDOWS_MAX = 3
"""Windows in which a caller may take no bytes of a waiting answer."""
SWEEP_SECONDS = 1.0
DESCRIPTORS_KEPT = 256
"""File descriptors reserved from callers: for the log, the tables and new work."""
CALLERS_SHARE = 4
"""Where few files may be open, callers get one of this many."""
LIMITS_GRANTED = (65_536, 10_240)
"""Numbers of files to ask for where, as on macOS, the limit that the system states is refused."""
BACKLOG = 128
ACCEPTING_ROUNDS = 10
"""Rounds of the event loop in which accepted connections are surely made."""
TAKING_SECONDS = 1.0
"""For callers to take complete answers when the node stops."""

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"X-Error-Code: too_many_connections\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
)
_BODY = b'{"detail":{"code":"too_many_connections","message":"too many connections are open"}}'


class Connections:
    """All connections of one listening socket. Used in the event loop alone. ``most``: how many in
    all; fewer if the process may not open so many files. ``most_each``: how many per address."""

    def __init__(self, most: int, most_each: int) -> None:
        files = descriptors()
        self.most = min(most, max(files - DESCRIPTORS_KEPT, files // CALLERS_SHARE))
        self.most_each = most_each
        self.refused = 0
        self.ended = 0
        self._open: set[ClientConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: "ClientConnection") -> bool:
        """Whether there was room for the connection, which then counts."""
        address = connection.address
        if len(self._open) >= self.most or self._by_address[address] >= self.most_each:
            self.refused += 1
            return False
        self._open.add(connection)
        self._by_address[address] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
        return True

    def remove(self, connection: "ClientConnection") -> None:
        """Forget a closed connection."""
        if connection in self._open:
            self._open.remove(connection)
            self._by_address[connection.address] -= 1
            if not self._by_address[connection.address]:
                del self._by_address[connection.address]

    async def end(self) -> None:
        """Close all connections after the server's shutdown. Callers have ``TAKING_SECONDS`` to
        take their answers."""
        deadline = monotonic() + TAKING_SECONDS
        await asyncio.sleep(0)
        while self._open and monotonic() < deadline:
            await asyncio.sleep(0.01)
        for connection in self._open:
            connection.end()
        await asyncio.sleep(0)  # then they are closed
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = monotonic()
        for connection in list(self._open):
            if connection.overdue(now):
                self.ended += 1
                connection.end()
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep) if self._open else None


class ClientConnection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol, and watches the time."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self.address = ""
        self.lost = False
        self._connections = connections
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self._request: web.Request | None = None
        self._deadline = 0.0
        self._idle = False
        self._received = 0
        self._window_ends = 0.0
        self._stalled = 0
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        if not self._connections.admit(self):
            self._transport.write(_BUSY % (len(_BODY), _BODY))
            self._transport.close()
            return
        self._admitted = True
        self._deadline = monotonic() + HEADER_SECONDS_MAX
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._admitted:
            return
        self._received += len(data)
        if self._idle:
            self._idle = False
            self._deadline = monotonic() + HEADER_SECONDS_MAX
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._admitted else None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._admitted:
            self._connections.remove(self)
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def begin(self, request: web.Request) -> None:
        """Note that a request's header has come."""
        self._request = request
        request[CONNECTION] = self  # its transport has no protocol once the caller has gone
        self._open_window(monotonic())
        self._stalled = 0

    def finish(self) -> None:
        """Note that the answer is made: the next request may come."""
        self._request = None
        self._idle = True
        self._deadline = monotonic() + IDLE_SECONDS_MAX

    def overdue(self, now: float) -> bool:
        """Whether the caller is out of time. Called every ``SWEEP_SECONDS``."""
        assert self._transport is not None
        unsent = self._transport.get_write_buffer_size()
        if self._request is None and not unsent:
            return now >= self._deadline
        if not self._transport.is_reading():
            self._open_window(now)  # the node itself is slow here
        if now < self._window_ends:
            return False
        stopped = (
            self._request is not None
            and not self._request.content.is_eof()
            and self._transport.is_reading()
            and self._received < BODY_BYTES_PER_WINDOW_MIN
        )
        self._stalled = self._stalled + 1 if unsent and unsent >= self._unsent else 0
        self._unsent = unsent
        self._open_window(now)
        return stopped or self._stalled > STALLED_WINDOWS_MAX

    def _open_window(self, now: float) -> None:
        self._window_ends = now + WINDOW_SECONDS
        self._received = 0

    def end(self) -> None:
        """Close without waiting for the caller."""
        if self._transport is not None:
            self._transport.abort()


class WatchedSite(web.SockSite):
    """A listening socket that limits and watches its connections."""

    def __init__(
        self, runner: web.BaseRunner, sock: socket.socket, connections: Connections
    ) -> None:
        super().__init__(runner, sock, backlog=BACKLOG)
        self._connections = connections

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        make = cast("Callable[[], asyncio.Protocol]", server)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(self._connections, make()),
            sock=self._sock,
            backlog=self._backlog,
        )

    async def stop(self) -> None:
        # asyncio loses connections that are accepted, but not made yet, when their server closes;
        # aiohttp waits in vain for those that are made during its shutdown.
        if isinstance(self._server, asyncio.Server):
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            for _ in range(ACCEPTING_ROUNDS):
                await asyncio.sleep(0)
        await super().stop()


CONNECTION = web.RequestKey("connection", ClientConnection)
"""Of a request that has begun on a watched connection."""


def connection_of(request: web.Request) -> ClientConnection | None:
    """The connection of a request; None if it is not watched."""
    transport = request.transport
    found = None if transport is None else transport.get_protocol()
    return found if isinstance(found, ClientConnection) else None


def descriptors() -> int:
    """How many files this process may have open, after raising its limit as high as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, *LIMITS_GRANTED):
        if soft < wanted <= hard:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return wanted
    return soft
