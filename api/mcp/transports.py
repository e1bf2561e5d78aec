"""The two transports: stdio for a client that starts the server, streamable HTTP for many."""

import asyncio
import io
import json
import logging
import os
import signal
import socket
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Thread
from typing import Any, Protocol, TypeAlias, cast

import anyio
import uvicorn
from anyio.abc import AsyncResource
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from msgspec import Struct
from pydantic import ValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from engramlog.api.mcp.slow_requests import TimedProtocol
from engramlog.api.node.process.serving import listen

PATH = "/mcp"
CANCELLED = "notifications/cancelled"
ANSWERS_SECONDS_MAX = 60.0
"""How long a client that has closed stdin may get answers."""
CALLS_SECONDS_MAX = 5.0
"""How long running calls may take to end once a signal has come."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class HttpAddress(Struct, frozen=True, kw_only=True):
    """Where to listen. ``names``: further hosts under which clients may call it, besides the
    address and this machine's own names. All others are refused, so that no web page can reach the
    server through its own name (DNS rebinding)."""

    host: str = "127.0.0.1"
    port: int = 8766
    names: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on stdin and stdout until it closes one of them. Raises KeyboardInterrupt
    at SIGINT and SIGTERM, so that the caller closes its directory."""
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as serving:
            stop.append(lambda: loop.call_soon_threadsafe(serving.cancel))
            lines = anyio.wrap_file(io.StringIO())  # the SDK reads none itself
            async with stdio_server(stdin=lines) as (_, outgoing):
                answers = Answers(outgoing)
                messages = stdin_messages(answers)
                await server.run(messages, answers, server.create_initialization_options())

    def run() -> None:
        try:
            anyio.run(serve)
        except* BrokenPipeError:  # the client is gone
            pass

    def end() -> None:
        for each in stop:
            with suppress(RuntimeError):  # it has just ended
                each()

    _until_signal(run, end, KeyboardInterrupt())


def serve_http(
    server: Server[Any], address: HttpAddress, on_ready: Callable[[HttpAddress], None]
) -> None:
    """Serve many clients until SIGINT or SIGTERM. Raises ServingError if the address is in use.
    Calls share no state, so it does not use the protocol's sessions: clients continue after a
    restart of this server."""
    bound = listen(address.host, address.port)
    address = HttpAddress(host=address.host, port=bound.getsockname()[1], names=address.names)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=guard(address),
        host=address.host,
    )
    config = uvicorn.Config(
        _answering(app), http=TimedProtocol, log_config=None, access_log=False, lifespan="on"
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    serving = _Announcing(config, lambda: on_ready(address))

    def end() -> None:
        serving.should_exit = True

    _until_signal(lambda: serving.run([bound]), end, SystemExit(0))


def _until_signal(
    run: Callable[[], None], stop: Callable[[], None], terminated: BaseException
) -> None:
    """Run a server until it ends. At a signal, stop it, and once its calls have ended or had their
    time, raise ``terminated`` (SIGTERM) or KeyboardInterrupt (SIGINT)."""
    faults: list[BaseException] = []
    signals: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        signals.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if len(signals) == 1:
            raise terminated

    def guarded() -> None:
        try:
            run()
        except BaseException as found:
            faults.append(found)

    # The threads of a daemon are daemons too: one that writes to a client that reads nothing, or
    # waits for a node that does not answer, must not keep the process from ending.
    session = Thread(target=guarded, name="mcp", daemon=True)
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in the background
        signal.signal(signal.SIGINT, interrupt)
    session.start()
    try:
        session.join()
        _ignore_termination()
    except (KeyboardInterrupt, SystemExit):
        _ignore_termination()
        stop()
        session.join(CALLS_SECONDS_MAX)
        raise
    if faults:
        raise faults[0]


def _ignore_termination() -> None:
    """Many hosts send SIGTERM after the end of stdin or another signal: it must not interrupt the
    closing of the directory."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _answering(app: ASGIApp) -> ASGIApp:
    """``app``, but without a stream for messages outside of answers, as there are none. The SDK
    would open one that stays empty and, at the end, is an error in the log."""
    refusal = JSONResponse({"detail": "Method Not Allowed"}, 405, {"Allow": "POST"})

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        stream = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == PATH
        await (refusal if stream else app)(scope, receive, send)

    return answer


class _Announcing(uvicorn.Server):
    """Calls back when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()


def guard(address: HttpAddress) -> TransportSecuritySettings:
    """The accepted Host and Origin headers."""
    hosts = _hosts((*_LOOPBACK, address.host, *address.names))
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


def _hosts(names: Sequence[str]) -> list[str]:
    # A bare IPv6 address has colons.
    bare = dict.fromkeys(f"[{name.strip('[]')}]" if ":" in name else name for name in names)
    return [form for name in bare for form in (name, f"{name}:*")]


_Item: TypeAlias = SessionMessage | Exception


class MessageSender(Protocol):
    """Sends to the client."""

    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


class Answers(AsyncResource):
    """The messages to the client, and which requests wait for theirs."""

    def __init__(self, outgoing: MessageSender) -> None:
        self._outgoing = outgoing
        self._open: Counter[RequestId] = Counter()
        self._all_given = asyncio.Event()
        self._all_given.set()

    def expect(self, message: JSONRPCMessage) -> None:
        """Note a message of the client: a request waits, one that it cancels no longer does."""
        if isinstance(message, JSONRPCRequest):
            self._open[message.id] += 1
            self._all_given.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            self._close((message.params or {}).get("requestId"))

    async def wait(self) -> None:
        """Until no request waits, a minute at most."""
        with anyio.move_on_after(ANSWERS_SECONDS_MAX):
            await self._all_given.wait()

    async def send(self, item: SessionMessage, /) -> None:
        await self._outgoing.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._close(item.message.id)

    def _close(self, name: RequestId | None) -> None:
        if name is not None and name in self._open:
            self._open[name] -= 1
            self._open += Counter()  # drops zeros
        if not self._open:
            self._all_given.set()

    async def aclose(self) -> None:
        await self._outgoing.aclose()


def stdin_messages(answers: Answers) -> MemoryObjectReceiveStream[_Item]:
    """What the client sends, in order, until the end of stdin and the last answer. Unreadable
    messages are not among it: they get their answer here. The SDK's own reader leaves them without
    one, so that their sender waits; and it keeps the process from ending until the next line comes,
    also after Ctrl-C. The SDK's server drops the running calls once the messages end."""
    loop = asyncio.get_running_loop()
    readable, messages = anyio.create_memory_object_stream[_Item](0)

    async def take(line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as fault:
            await answers.send(SessionMessage(refusal_of(line, fault)))
            return
        if isinstance(message, JSONRPCNotification) and "id" in _fields_of(line):
            await answers.send(SessionMessage(_NO_ID))
        else:
            answers.expect(message)
            await readable.send(SessionMessage(message))

    async def end() -> None:
        await answers.wait()
        await readable.aclose()

    def read() -> None:
        # Its own file: the end of the process locks that of sys.stdin.
        with os.fdopen(os.dup(0), "rb") as stdin, suppress(*_ENDED):
            for number, line in enumerate(stdin):
                text = line if number else line.removeprefix(BOM_UTF8)
                if text.strip():
                    asyncio.run_coroutine_threadsafe(take(text), loop).result()
            asyncio.run_coroutine_threadsafe(end(), loop).result()

    Thread(target=read, name="stdin", daemon=True).start()
    return messages


_ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError, CancelledError, RuntimeError)
"""Faults of a reader whose server has ended."""


_NO_ID = JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=ErrorData(
        code=INVALID_REQUEST, message="not a JSON-RPC message: id: must be a string or an integer"
    ),
)
"""The SDK takes a request with another id for a notification, which gets no answer."""


def refusal_of(line: bytes, fault: ValidationError) -> JSONRPCError:
    """The answer to an unreadable message: with its id, if it is a request with one."""
    request = _fields_of(line)
    name = request.get("id") if "method" in request else None
    known = isinstance(name, str | int) and not isinstance(name, bool)
    first = fault.errors()[0]
    why = first["msg"]
    if line.lstrip().startswith(b"["):
        why = "send each message of a batch on a line of its own"
    code = PARSE_ERROR if first["type"] == "json_invalid" and not known else INVALID_REQUEST
    where = f"{first['loc'][-1]}: " if len(first["loc"]) > 1 else ""  # it begins with a class
    error = ErrorData(code=code, message=f"not a JSON-RPC message: {where}{why}")
    return JSONRPCError(jsonrpc="2.0", id=name if known else None, error=error)


def _fields_of(line: bytes) -> dict[str, Any]:
    """The fields of a JSON object; none of anything else."""
    with suppress(ValueError):  # reads more than the SDK, such as half a surrogate pair
        found: object = json.loads(line.decode(errors="replace"))
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    return {}
