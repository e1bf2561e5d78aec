"""The names that ``eventlog`` exports are exactly those it lists."""

from __future__ import annotations

import inspect
from types import ModuleType

from engramlog import eventlog


def test_all_lists_exactly_the_public_names() -> None:
    present = {
        name
        for name, value in vars(eventlog).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert set(eventlog.__all__) == present


def test_every_public_name_is_documented() -> None:
    for name in eventlog.__all__:
        value = getattr(eventlog, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def test_every_error_is_drawn_in_the_tree() -> None:
    from engramlog.eventlog import errors

    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.EventLogError):
            assert name in str(errors.__doc__), name
