"""The documentation of what ``eventlog`` raises."""

import inspect

from engramlog.eventlog import errors


def test_every_error_is_drawn_in_the_tree() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.EventLogError):
            assert name in str(errors.__doc__), name
