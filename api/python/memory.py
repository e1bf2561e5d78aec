"""The same verbs, blocking: each runs its twin in the background loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from engramlog.api.python.async_memory import AsyncMemory, AsyncMemoryView
from engramlog.api.python.transport import begun, in_own_thread, waited
from engramlog.api.python.values import InstantLike, MomentLike

Given = ParamSpec("Given")
Result = TypeVar("Result")


def _waiting(
    twin: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """A method that waits for its twin's answer."""

    called = cast("Callable[..., Coroutine[Any, Any, Result]]", twin)

    @wraps(twin)
    def verb(self: MemoryView, *args: Given.args, **options: Given.kwargs) -> Result:
        given = [_read("", each) for each in args]
        named = {name: _read(name, each) for name, each in options.items()}
        try:
            asked = called(self.awaited, *given, **named)
        except TypeError as fault:  # it names the twin's class
            raise TypeError(str(fault).replace("AsyncMemory", "Memory", 1)) from None
        return waited(asked)

    return verb


def _read(name: str, given: object) -> object:
    """An argument with the user's code behind it (a generator that asks this memory, say) as plain
    data: that code must not run in the background loop."""
    if isinstance(given, Mapping):
        return dict(cast("Mapping[Any, Any]", given))
    if name == "tags" and isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return list(cast("Iterable[Any]", given))
    return given


class MemoryView:
    """The verbs that read, at one moment. See ``AsyncMemoryView``."""

    def __init__(self, awaited: AsyncMemoryView) -> None:
        self.awaited = awaited

    def __repr__(self) -> str:
        return repr(self.awaited).replace("Async", "", 1)

    recall = _waiting(AsyncMemoryView.recall)
    facts = _waiting(AsyncMemoryView.facts)
    neighbors = _waiting(AsyncMemoryView.neighbors)
    card = _waiting(AsyncMemoryView.card)
    history = _waiting(AsyncMemoryView.history)

    def as_of(
        self, moment: MomentLike | None = None, *, valid_at: InstantLike | None = None
    ) -> MemoryView:
        """The memory as known at a moment; with ``valid_at``, the facts valid at that time.

        Raises ValueError for a datetime without an offset.
        """
        return MemoryView(self.awaited.as_of(moment, valid_at=valid_at))


class Memory(MemoryView):
    """A memory: a data directory, or a node by URL and key.

    If a node serves the directory, this uses that node; otherwise it opens the directory in this
    process, without a server. Close it when done, or use ``with``.
    """

    def __init__(
        self, place: str | os.PathLike[str], *, key: str | None = None, scope: str = "local"
    ) -> None:
        """
        Args: place: a directory (created if missing), or an ``http(s)://`` URL.
            key: the API key, for a URL.
            scope: of new facts: ``local``, ``team``, ``company`` or ``public``.

        Raises:
            EventLogError, SettingsError: the directory does not open.
            ClientError: the URL is malformed.
        """
        awaited = AsyncMemory(place, key=key, scope=scope)
        super().__init__(awaited)
        try:
            waited(awaited.__aenter__())
        except KeyboardInterrupt:  # no caller has the memory to close it
            awaited.requests.release()
            raise

    remember = _waiting(AsyncMemory.remember)
    assert_fact = _waiting(AsyncMemory.assert_fact)
    retract = _waiting(AsyncMemory.retract)
    forget = _waiting(AsyncMemory.forget)

    def close(self) -> None:
        """Release the memory. Idempotent. Only a finalizer in a thread of a memory does not wait
        until that is done."""
        if sys.is_finalizing():  # it is released
            return
        if in_own_thread():
            begun(self.awaited.requests.close())
        else:
            waited(self.awaited.requests.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
