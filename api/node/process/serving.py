"""Runs a node as a process: listens, serves, stops gracefully, and writes the control file.

While the node serves, ``control.json`` in the data directory (mode 0600) holds the process id, the
URL and a token. Commands on that directory use it to reach the running node.
"""

import asyncio
import contextlib
import errno
import ipaddress
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Literal

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
EACH_PER_MINUTE = 60
"""Equal records in the error log."""
KINDS_MAX = 1_000
"""Different records to count separately per minute; any more count as one."""

_access = logging.getLogger("engramlog.access")
_log = logging.getLogger(__name__)


class Repeated(logging.Filter):
    """Passes ``EACH_PER_MINUTE`` records per minute of one logger, level and text (before its
    arguments). The last of them says that more are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = -1
        self._counts: dict[tuple[str, int, str], int] = {}
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "engramlog.access":
            return True  # the operator wants one line per request
        minute = int(record.created // 60)
        key = (record.name, record.levelno, str(record.msg))
        with self._lock:
            if minute != self._minute:
                self._minute, self._counts = minute, {}
            if key not in self._counts and len(self._counts) >= KINDS_MAX:
                key = ("", 0, "")
            count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == EACH_PER_MINUTE:
            text = record.getMessage()
            record.msg, record.args = "%s (more like this are left out for a minute)", (text,)
        return count <= EACH_PER_MINUTE


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


class JsonFormatter(logging.Formatter):
    """Log records as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """Log records as lines for people: the time, the level unless it is info, the message."""

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        fields: dict[str, object] = getattr(record, "fields", {})
        parts = [f"{name}={value}" for name, value in fields.items() if value is not None]
        text = " ".join([record.getMessage(), *parts])
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {level}{text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class CallersFaults(logging.Filter):
    """Logs malformed bodies in one line, without a traceback, at level info: they are no failure of
    the node."""

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        if not isinstance(fault, web.RequestPayloadError):
            return True
        record.msg = f"{record.getMessage()}: {' '.join(str(fault).split())}"
        record.args, record.exc_info = (), None
        record.levelno, record.levelname = logging.INFO, "INFO"
        return logging.getLogger(record.name).isEnabledFor(logging.INFO)


def start_logging(level: str, form: Literal["auto", "text", "json"]) -> None:
    """Send log records to stderr: ``auto`` is lines for people on a terminal, else JSON."""
    logging.getLogger("aiohttp.server").addFilter(CallersFaults())
    handler = logging.StreamHandler(sys.stderr)
    plain = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(PlainFormatter() if plain else JsonFormatter())
    handler.addFilter(Repeated())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


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
