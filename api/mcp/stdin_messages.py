"""The messages of a client on stdin.

The SDK's own reader leaves an unreadable message without an answer, so that its sender waits; and
it keeps the process from ending until the next line comes, also after Ctrl-C.
"""

import asyncio
import json
import os
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Thread
from typing import Any, Protocol, TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

_Item: TypeAlias = SessionMessage | Exception


class MessageSender(Protocol):
    """Sends to the client."""

    async def send(self, item: SessionMessage, /) -> None: ...


def stdin_messages(outgoing: MessageSender) -> MemoryObjectReceiveStream[_Item]:
    """What the client sends, in order, until the end of stdin. Unreadable messages are not among
    it: they get their answer here."""
    loop = asyncio.get_running_loop()
    readable, messages = anyio.create_memory_object_stream[_Item](0)

    async def take(line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as fault:
            await outgoing.send(SessionMessage(refusal_of(line, fault)))
        else:
            await readable.send(SessionMessage(message))

    def read() -> None:
        # Its own file: the end of the process locks that of sys.stdin.
        with os.fdopen(os.dup(0), "rb") as stdin, suppress(*_ENDED):
            for line in stdin:
                if line.strip():
                    asyncio.run_coroutine_threadsafe(take(line), loop).result()
            asyncio.run_coroutine_threadsafe(readable.aclose(), loop).result()

    Thread(target=read, name="stdin", daemon=True).start()
    return messages


_ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError, CancelledError, RuntimeError)
"""Faults of a reader whose server has ended."""


def refusal_of(line: bytes, fault: ValidationError) -> JSONRPCError:
    """The answer to an unreadable message: with its id, if it is a request with one."""
    request: dict[str, Any] = {}
    with suppress(ValueError):  # reads more than the SDK, such as half a surrogate pair
        found: object = json.loads(line.decode(errors="replace"))
        if isinstance(found, dict) and "method" in found:
            request = cast("dict[str, Any]", found)
    name = request.get("id")
    known = isinstance(name, str | int) and not isinstance(name, bool)
    reason = fault.errors()[0]["msg"]
    error = ErrorData(code=INVALID_REQUEST, message=f"not a JSON-RPC message: {reason}")
    return JSONRPCError(jsonrpc="2.0", id=name if known else None, error=error)
