"""Connections to the MCP server over HTTP whose requests do not end: uvicorn would keep them."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS_MAX = 60.0
"""From the connection's start, or from the answer before, to the end of a request. uvicorn itself
closes an idle connection after 5 s."""


class TimedProtocol(H11Protocol):
    """Closes a connection that does not complete its request in time. An answer may take longer."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def on_response_complete(self) -> None:
        self._expect()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _expect(self) -> None:
        """Expect the next request to be complete in time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(REQUEST_SECONDS_MAX, self._end)

    def _end(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.abort()
