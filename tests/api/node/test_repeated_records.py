"""The error log has a limit."""

import logging

from engramlog.api.node.process.error_log import EACH_PER_MINUTE, Repeated


def record(text: str, *args: object, name: str = "n", at: float = 0.0) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "", 0, text, args, None)
    made.created = at
    return made


def test_equal_records_are_limited_per_minute() -> None:
    repeated = Repeated()
    passed = [each for n in range(500) if repeated.filter(each := record("bad %d", n))]
    assert len(passed) == EACH_PER_MINUTE
    assert passed[0].getMessage() == "bad 0"
    assert passed[-1].getMessage() == "bad 59 (more like this are left out for a minute)"
    assert repeated.filter(record("other"))
    assert repeated.filter(record("bad %d", 1, at=60.0))


def test_the_access_log_has_every_request() -> None:
    repeated = Repeated()
    assert all(repeated.filter(record("request", name="engramlog.access")) for _ in range(500))
