"""Progress of long work, shown on stderr."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:  # only long work loads it
    from tqdm import tqdm


class Bar:
    """A progress bar on stderr that shows (done, total) pairs."""

    def __init__(self, title: str, unit: str, quiet: bool) -> None:
        self._hidden = quiet or not sys.stderr.isatty()
        self._title = title
        self._unit = unit
        self._bar: tqdm[NoReturn] | None = None

    def show(self, done: int, total: int) -> None:
        """Show the progress."""
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
