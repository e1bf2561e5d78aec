"""A data directory opened in this process: the node and its own handlers, without a socket.

All users of a directory in this process share one node. It runs in the background loop, and closes
with the last of them or with the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from pathlib import Path

from aiohttp import StreamReader, web
from aiohttp.http import HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from engramlog.api.client.client import ClientError
from engramlog.api.http.app import AppRunner, create_app
from engramlog.api.http.error_codes import CODE_HEADER
from engramlog.api.node.node import Node
from engramlog.api.python.transport import NodeAnswer, SentRequest, begun
from engramlog.api.settings import Settings
from engramlog.api.settings_sources import load_settings
from engramlog.projections.tables.declared.policies import USUAL_RELATIONS

_READ_BYTES = 2**16
_log = logging.getLogger(__name__)


class EmbeddedNode:
    """Implements ``Transport``. Make it with ``join``."""

    def __init__(self, path: Path, node: Node, runner: AppRunner, token: str) -> None:
        self.place = str(path)
        self.owner: str | None = None
        self._path = path
        self._node = node
        self._runner = runner
        self._token = token
        self._users = 0

    @classmethod
    async def join(cls, path: Path, owner: str) -> EmbeddedNode:
        """The node over a directory, opened unless this process has it open already.

        Raises:
            DirectoryLocked and the other errors of ``Node.open``; SettingsError.
        """
        path = path.resolve()
        async with _opening:
            found = _open.get(path)
            if found is None:
                found = _open[path] = await cls._opened(path)
                found.owner = owner
            found._users += 1
            return found

    @classmethod
    async def _opened(cls, path: Path) -> EmbeddedNode:
        settings, warnings = load_settings({"data_dir": path})
        for warning in warnings:
            _log.warning("%s", warning)
        node = await asyncio.to_thread(_node_of, settings)
        try:
            token = secrets.token_urlsafe(32)
            # No workers: everything runs in this process, with the control token.
            here = settings.model_copy(update={"recall_workers": 0})
            app = create_app(node, here, control_token=token)
            app.service.long.never_refuse()
            runner = AppRunner(app, access_log=None)
            await runner.setup()
        except BaseException:
            await asyncio.to_thread(node.close)
            raise
        return cls(path, node, runner, token)

    async def exchange(self, request: SentRequest) -> NodeAnswer:
        server = self._runner.server
        if server is None:  # the last memory of the directory closed, or the main thread ended
            raise ClientError("this memory is closed")
        loop, protocol = asyncio.get_running_loop(), server()
        named = CIMultiDictProxy(
            CIMultiDict(
                {**request.headers, "Host": "localhost", "Authorization": f"Bearer {self._token}"}
            )
        )
        raw = tuple((name.encode(), text.encode()) for name, text in named.items())
        body, content = EMPTY_PAYLOAD, request.content
        if content is not None:
            # A full reader would pause its connection, but there is none.
            body = StreamReader(protocol, max(_READ_BYTES, len(content)), loop=loop)
            body.feed_data(content)
            body.feed_eof()
        message = RawRequestMessage(
            request.method, request.target, HttpVersion11, named, raw, False, None, False, False,
            URL(request.target, encoded=True),
        )  # fmt: skip
        task = asyncio.current_task()
        assert task is not None
        received = server.request_factory(
            message, body, protocol, StreamWriter(protocol, loop), task
        )
        response = await server.request_handler(received)
        assert isinstance(response, web.Response)
        answered = response.body
        content = answered if isinstance(answered, bytes) else b""
        return NodeAnswer(response.status, content, response.headers.get(CODE_HEADER, ""))

    async def close(self) -> None:
        async with _opening:
            self._users -= 1
            if self._users == 0 and self._path in _open:
                await self.end()

    async def end(self) -> None:
        """Close the node, even during use."""
        _open.pop(self._path, None)
        await self._runner.cleanup()
        await asyncio.to_thread(self._node.close)


def _node_of(settings: Settings) -> Node:
    return Node.open(
        settings.data_dir,
        set_valued=settings.set_valued_relations,
        set_valued_at_birth=USUAL_RELATIONS if settings.set_valued_defaults else (),
        embedding=settings.embedding,
        log=settings.log,
        durability=settings.log_durability,
        scopes=settings.scopes,
    )


async def _end_all() -> None:
    async with _opening:
        for each in list(_open.values()):
            await each.end()


def _at_exit() -> None:
    if _open:
        begun(_end_all()).result()


def _leave_to_parent() -> None:
    global _open, _opening
    _of_parents.append(_open)
    _open, _opening = {}, asyncio.Lock()


_open: dict[Path, EmbeddedNode] = {}
"""The directories open in this process. Used only in the background loop."""
_opening = asyncio.Lock()
_of_parents: list[dict[Path, EmbeddedNode]] = []
"""Nodes that run in the process which forked this one; kept, so that nothing closes their files."""
os.register_at_fork(after_in_child=_leave_to_parent)
# Runs before the thread pools shut down, unlike the usual ``atexit``: a node needs them to close.
threading._register_atexit(_at_exit)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
