"""Long work of a node: waiting for it, with its progress on stderr."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from engramlog.api.cli.arguments import CommandError

if TYPE_CHECKING:  # only long work loads it
    from tqdm import tqdm

POLL_SECONDS = 0.2


class Bar:
    """A progress bar on stderr that shows (done, total) pairs."""

    def __init__(self, title: str, unit: str, quiet: bool) -> None:
        self._hidden = quiet or not sys.stderr.isatty()
        self._title = title
        self._unit = unit
        self._bar: tqdm[NoReturn] | None = None

    def show(self, done: int, total: int) -> None:
        if self._hidden:
            return
        bar = self._bar
        if bar is None:
            from tqdm import tqdm

            bar = self._bar = tqdm(
                total=total, desc=self._title, unit=self._unit, unit_scale=True, leave=False
            )
        bar.total = total
        bar.update(done - bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress_bar(title: str, unit: str, *, quiet: bool = False) -> Generator[Bar]:
    """A bar within a ``with`` block; shows nothing if stderr is not a terminal."""
    bar = Bar(title, unit, quiet)
    try:
        yield bar
    finally:
        bar.close()


def finished(
    job: Callable[[], dict[str, Any]], what: str, bar: Bar | None = None, unit: str = ""
) -> dict[str, Any]:
    """The result of a job, which ``job`` reads, once it is done. ``unit``: what the bar counts.
    Raises CommandError: it failed; the message begins with ``what``."""
    while True:
        state = job()
        if state["status"] == "error":
            raise CommandError(f"{what}{state['error']}")
        if state["status"] == "done":
            result: dict[str, Any] = state["result"]
            return result
        if bar is not None and state[f"{unit}_total"]:
            bar.show(state[unit], state[f"{unit}_total"])
        time.sleep(POLL_SECONDS)
