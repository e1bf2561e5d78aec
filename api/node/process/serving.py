"""Runs a node as a process: listens, serves, stops gracefully, and writes the control file.

While the node serves, ``control.json`` in the data directory (mode 0600) holds the process id, the
URL and a token. Commands on that directory use it to reach the running node.
"""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from engramlog.api.http.app import AppRunner, create_app
from engramlog.api.http.auth import PRINCIPAL
from engramlog.api.http.connections import BACKLOG, Connections, WatchedSite
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import Control, control_file
from engramlog.api.routes.node.control import add_control_routes
from engramlog.api.settings import Settings
from engramlog.projections.recall.profile import UnknownProfile, load_profile

START_SECONDS_MAX = 30.0
PORT_MAX = 65_535

_access = logging.getLogger("engramlog.access")
_log = logging.getLogger(__name__)


class ServingError(Exception):
    """These settings do not allow serving; the message says which to change."""


class AccessLogger(AbstractAccessLogger):
    """One JSON object per request, without query strings: they hold the callers' questions."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        _access.info(
            "request",
            extra={
                "fields": {
                    "method": request.method,
                    "path": request.path,
                    "status": response.status,
                    "ms": round(time * 1000, 2),
                    "bytes": response.body_length,
                    "remote": request.remote,
                    "principal": request.get(PRINCIPAL),
                }
            },
        )


def listen(host: str, port: int) -> socket.socket:
    """A bound, listening socket. Raises ServingError if the address is not available."""
    if not 0 <= port <= PORT_MAX:  # the system would take its last 16 bits
        raise ServingError(f"--port: must be from 0 to {PORT_MAX} (got {port})")
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        family = info[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(info[4])
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as fault:
        reason = fault.strerror or str(fault)
        other = "--port" if fault.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise ServingError(
            f"cannot listen on {host} port {port}: {reason}; choose another with {other}"
        ) from fault
    bound.setblocking(False)
    return bound


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(settings: Settings) -> None:
    """Raises ServingError if the whole network could write without a key."""
    if not settings.auth_required and not is_loopback(settings.host):
        raise ServingError(
            f"refusing to listen on {settings.host} without authentication; "
            "leave out --no-auth (STIGMEM_AUTH_REQUIRED=true) or use --host 127.0.0.1"
        )


async def serve(
    node: Node,
    settings: Settings,
    bound: socket.socket,
    *,
    token: str,
    stop: asyncio.Event,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until ``stop``; then accept nothing new and let running requests finish."""
    app = create_app(node, settings, control_token=token)
    add_control_routes(app.router, node, settings, token)
    runner = AppRunner(
        app,
        access_log_class=AccessLogger,
        access_log=_access if settings.access_log else None,
        shutdown_timeout=settings.shutdown_timeout_s,
        auto_decompress=False,  # ``read_bytes`` does it, within limits
    )
    await runner.setup()
    connections = Connections(settings.connections_max, settings.connections_per_address_max)
    try:
        await WatchedSite(runner, bound, connections).start()
        on_ready()
        await stop.wait()
    finally:
        await runner.cleanup()
        await connections.end()


def check_profile(node: Node, settings: Settings) -> None:
    """Raises ServingError if the default recall profile does not exist."""
    name = settings.recall_profile
    if name in node.reader.profiles(node.reader.image.position):
        return
    try:
        load_profile(name)
    except UnknownProfile as fault:
        raise ServingError(f"recall_profile: {fault}") from fault


def run(node: Node, settings: Settings, on_ready: Callable[[Settings], None]) -> None:
    """Serve an open node until a signal to stop. The caller closes the node. Raises ServingError:
    the node is exposed without authentication, the address is taken, or the recall profile does not
    exist."""
    check_exposure(settings)
    check_profile(node, settings)
    bound = listen(settings.host, settings.port)
    settings = settings.model_copy(update={"port": bound.getsockname()[1]})
    token = secrets.token_urlsafe(32)
    opened = ExitStack()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _stopping_signals():
            loop.add_signal_handler(number, stop.set)

        def ready() -> None:
            control = Control(os.getpid(), local_url(settings), token)
            opened.enter_context(control_file(node.directory.path, control))
            on_ready(settings)

        await serve(node, settings, bound, token=token, stop=stop, on_ready=ready)

    try:
        with opened:
            asyncio.run(main())
    finally:
        bound.close()
        _log.info("stopped at position %d", node.log.head().position)


def local_url(settings: Settings) -> str:
    """The URL under which this machine reaches the node."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    return settings.model_copy(update={"host": host, "node_url": ""}).public_url


@contextmanager
def serve_in_background(
    node: Node, settings: Settings, bound: socket.socket | None = None
) -> Generator[Control]:
    """Serve an open node from a thread within a ``with`` block. For commands on a directory that no
    node serves, so that they always use HTTP. ``bound``: a listening socket, if one is open."""
    bound = bound or listen(settings.host, settings.port)
    settings = settings.model_copy(update={"port": bound.getsockname()[1]})
    token = secrets.token_urlsafe(32)
    ready = threading.Event()
    ended: list[BaseException] = []
    stopper: list[Callable[[], object]] = []

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        stopper.append(lambda: loop.call_soon_threadsafe(stop.set))
        await serve(node, settings, bound, token=token, stop=stop, on_ready=ready.set)

    def body() -> None:
        try:
            asyncio.run(main())
        except BaseException as fault:
            ended.append(fault)
        finally:
            ready.set()

    thread = threading.Thread(target=body, name="engramlog-serve", daemon=True)
    thread.start()
    ready.wait(START_SECONDS_MAX)
    try:
        if ended:
            raise ServingError(f"the node did not start: {ended[0]}") from ended[0]
        yield Control(os.getpid(), local_url(settings), token)
    finally:
        for stop in stopper:
            with contextlib.suppress(RuntimeError):
                stop()
        thread.join(settings.shutdown_timeout_s + START_SECONDS_MAX)
        bound.close()


def _stopping_signals() -> Iterator[signal.Signals]:
    """SIGINT, SIGTERM, and SIGHUP, the end of a terminal, unless the node was told to outlast it
    (``nohup``)."""
    yield from (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        yield signal.SIGHUP
