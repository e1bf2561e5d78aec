"""Threads for requests. Work that they refuse is never done."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class RefusingThreads(ThreadPoolExecutor):
    """A pool whose ``submit`` raises RuntimeError if the process may start no thread now. Python
    leaves such work in the queue: it would be done later, after its caller was refused, and delay
    all others."""

    def submit(
        self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Result]:
        begins = [partial(fn, *args, **kwargs)]

        def begun() -> Result:
            return begins.pop()()

        try:
            return super().submit(begun)
        except RuntimeError:
            begins.clear()
            raise
