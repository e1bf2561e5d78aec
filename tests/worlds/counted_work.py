"""Counts the work of a reader of the memory image, the same on every machine: the elements that its
array operations produce or read, and the lines of the package that run.

A function whose work grows with the square of its input shows it here already at small sizes, even
if one array operation does it all.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import numpy as np

import engramlog
from engramlog.projections.image.view import View

_PACKAGE = str(Path(engramlog.__file__).resolve().parents[1])
_elements = [0]


class CountedArray(np.ndarray):
    """An array whose operations count the elements they read or make; so do its descendants."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        plain = [_plain(each) for each in inputs]
        if "out" in more:
            more["out"] = tuple(_plain(each) for each in more["out"])
        made = getattr(ufunc, method)(*plain, **more)
        _elements[0] += max((np.size(each) for each in (*plain, made)), default=0)
        return _counted(made)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        plain = _plain(args)
        made = func(*plain, **{name: _plain(each) for name, each in kwargs.items()})
        _elements[0] += sum(each.size for each in (*_arrays(plain), *_arrays(made)))
        return _counted(made)

    def __getitem__(self, at: Any) -> Any:
        _elements[0] += np.size(at) if isinstance(at, np.ndarray) else 1
        return _counted(np.asarray(self)[_plain(at)])

    def tolist(self) -> Any:
        _elements[0] += self.size
        return np.asarray(self).tolist()


def work(view: View, read: Callable[[View], object]) -> int:
    """Elements and lines of one read of a view."""
    for name, column in vars(view).items():
        if isinstance(column, np.ndarray):
            setattr(view, name, column.view(CountedArray))
    _elements[0] = 0
    lines = line_work(lambda: read(view))
    return _elements[0] + lines


def line_work(do: Callable[[], object]) -> int:
    """How many lines of the package run."""
    lines = [0]

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[0] += 1
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        ours = frame.f_code.co_filename.startswith(_PACKAGE)
        return line(frame, event, argument) if ours else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        do()
    finally:
        sys.settrace(before)
    return lines[0]


def sql_work(db: apsw.Connection, read: Callable[[apsw.Connection], object]) -> int:
    """Hundreds of steps of SQLite's machine that one read takes."""
    steps = [0]

    def step() -> bool:
        steps[0] += 1
        return False

    db.set_progress_handler(step, 100)
    try:
        read(db)
    finally:
        db.set_progress_handler(None)
    return steps[0]


def _counted(made: Any) -> Any:
    if isinstance(made, tuple):
        return tuple(_counted(each) for each in made)
    return made.view(CountedArray) if type(made) is np.ndarray else made


def _plain(given: Any) -> Any:
    if isinstance(given, tuple | list):
        return type(given)(_plain(each) for each in given)
    return np.asarray(given) if isinstance(given, CountedArray) else given


def _arrays(given: Any) -> list[Any]:
    if isinstance(given, tuple | list):
        return [array for each in given for array in _arrays(each)]
    return [given] if isinstance(given, np.ndarray) else []
