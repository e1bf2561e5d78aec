"""Requests of a memory's verbs, and their JSON."""

import asyncio
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from engramlog.api.client.client import (
    AnswerFields,
    ClientError,
    decoded_answer,
    failure_of,
    json_of,
    query_text,
)
from engramlog.api.node.process.control_file import running_control
from engramlog.api.python.transport import (
    HttpTransport,
    NodeAway,
    SentRequest,
    Transport,
    begun,
    finished,
)
from engramlog.api.python.values import name_text, whole_number
from engramlog.eventlog.directory import is_data_directory
from engramlog.eventlog.errors import DirectoryLocked

OWN_NAME = "user:me"
"""The source of writes without one, in a directory."""


class NodeRequests:
    """Requests to a node; the first one connects."""

    _transport: Transport | None = None

    def __init__(self, place: str | os.PathLike[str], key: str | None) -> None:
        self.place = name_text("place", os.fspath(place), "a path or a URL")
        self._key = key
        self._opening = asyncio.Lock()
        """Used in the background loop only."""
        self._used = False
        self._closed = False
        self._process = os.getpid()

    def __del__(self) -> None:
        """Warn, as a file does, that nothing can close the node any more before the process ends.
        At the end of the process it is closed already."""
        if self._transport is None or self._process != os.getpid() or sys.is_finalizing():
            return
        warnings.warn(f"unclosed memory {self.place!r}", ResourceWarning, 2, source=self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a memory cannot be copied or pickled: open one in each process")

    async def transport(self) -> Transport:
        """The way to the node. Raises the errors of ``reach``; ClientError in a forked child."""
        if self._process != os.getpid():
            raise ClientError("this memory belongs to the process that forked: open one here")
        self._used = True
        return await asyncio.wrap_future(begun(finished(self._reached())))

    async def _reached(self) -> Transport:
        async with self._opening:
            if self._closed:
                raise ClientError("this memory is closed")
            if self._transport is None:
                self._transport = await reach(self.place, self._key)
            return self._transport

    async def _renewed(self, lost: Transport) -> Transport | None:
        """The way to the node that serves the directory now: one that was started again has another
        port and token. None for a URL, and if no node serves it."""
        if "://" in self.place:
            return None
        async with self._opening:
            # The lost one closes with the last request that is under way on it.
            if self._transport is lost and (found := await served(self.place)) is not None:
                self._transport = found
            return None if self._transport is lost else self._transport

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        writes: bool = False,
        accept: Sequence[int] = (),
        waited_seconds: float = 0.0,
    ) -> AnswerFields:
        """One request and its JSON. Raises ClientError.

        Args:
            writes: send an idempotency key.
            accept: statuses over 400 to return as answers.
            waited_seconds: how long the node may take by the request itself.
        """
        transport = await self.transport()
        target = path + query_text(given_fields(query or {}))
        content, headers = None, {"Accept": "application/json"}
        if body is not None:
            content = json_of(body)
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        if writes:
            headers["Idempotency-Key"] = str(uuid4())
        request = SentRequest(method, target, content, headers, waited_seconds)
        answer, fault = None, None
        try:
            answer = await asyncio.wrap_future(begun(transport.exchange(request)))
        except NodeAway as away:
            fault = away
        if answer is None or answer.status == 401:
            renewed = await asyncio.wrap_future(begun(self._renewed(transport)))
            if renewed is not None:
                transport = renewed
                answer = await asyncio.wrap_future(begun(transport.exchange(request)))
        if answer is None:
            assert fault is not None
            raise fault
        if 300 <= answer.status < 400:
            raise ClientError(
                f"{transport.place} redirects: give the URL that it leads to", answer.status
            )
        place = f"{transport.place}{path}"
        decoded: AnswerFields = decoded_answer(place, answer.status, answer.body or b"{}")
        if answer.status >= 400 and answer.status not in accept:
            raise failure_of(answer.status, decoded, answer.code)
        return decoded

    async def items(
        self,
        path: str,
        name: str,
        query: Mapping[str, object],
        most: int,
        page_max: int,
        *,
        size_name: str = "limit",
        cursor_name: str = "cursor",
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Up to ``most`` items of a list with pages of at most ``page_max``, and the last page;
        ``name``: of the items in a page; ``size_name``: of the parameter for its size;
        ``cursor_name``: of the next one's cursor. Raises ClientError; TypeError for a limit that is
        no whole number."""
        whole_number("limit", most)
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            size = min(page_max, most - len(found))
            asked = {**query, size_name: size, "cursor": cursor}
            page = await self.ask("GET", path, query=asked)
            found += page[name]
            cursor = page[cursor_name]
            if cursor is None or len(found) >= most:
                return found[:most], page

    async def close(self) -> None:
        """Release the node. Idempotent."""
        self._closed = True
        await asyncio.wrap_future(self.release())

    def release(self) -> Future[None]:
        """Begin to release the node, after an opening that is under way; a later request opens it
        again."""
        # The process that opened it may use it; at the end of one nothing is open.
        if not self._used or self._process != os.getpid() or sys.is_finalizing():
            unopened: Future[None] = Future()
            unopened.set_result(None)
            return unopened
        return begun(finished(self._released()))

    async def _released(self) -> None:
        async with self._opening:
            transport, self._transport = self._transport, None
            if transport is not None:
                await transport.close()


def given_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


_ADDRESS = re.compile(r"([\w.-]+|\[[\w:.]+\]):[0-9]+/?")
"""A host and a port."""


async def reach(place: str, key: str | None) -> Transport:
    """Connect to a memory: by URL, to a directory that a node serves, or by opening it here.

    Raises:
        ClientError: a directory with a key, or a malformed URL.
        DirectoryLocked: another process holds the directory without serving it.
        DataDirectoryError, CorruptLog and the other errors of ``Node.open``; SettingsError.
    """
    if "://" in place:
        return HttpTransport(place, key)
    if key is not None:
        raise ClientError(f"{place!r} is a directory, which needs no key")
    node = await served(place)
    if node is not None:
        return node
    path = Path(place).expanduser()
    if _ADDRESS.fullmatch(place) and not path.exists():
        raise ClientError(f"{place!r} is not an http:// or https:// URL, nor a directory")
    try:
        with _model_ahead(path):
            from engramlog.api.python.embedded import EmbeddedNode

            return await EmbeddedNode.join(path, OWN_NAME)
    except DirectoryLocked as fault:
        node = await served(place)  # a node may serve it by now
        if node is None:
            share = f"to share it, serve it: engramlog serve --data {place}"
            raise DirectoryLocked(f"{fault}; {share}") from fault
        return node


def _model_ahead(path: Path) -> AbstractContextManager[None]:
    """Loads the bundled model beside the modules that opening a directory needs, the first time.
    Raises SettingsError."""
    if "engramlog.api.python.embedded" in sys.modules:
        return nullcontext()
    from engramlog.api.settings_sources import load_settings
    from engramlog.projections.embedding.model_ahead import model_ahead

    settings, _ = load_settings({"data_dir": path})
    return model_ahead(settings.embedding, path, begins=not is_data_directory(path))


async def served(place: str) -> Transport | None:
    """The way to the node that serves a directory, if one does."""
    control = await asyncio.to_thread(running_control, Path(place).expanduser())
    return None if control is None else HttpTransport(control.url, control.token, OWN_NAME)
