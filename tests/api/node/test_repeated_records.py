"""The error log has a limit."""

import asyncio
import errno
import logging
import os

from engramlog.api.node.process.error_log import EACH_PER_MINUTE, Repeated, Unaccepted


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


def test_connections_without_a_free_file_are_one_line_a_minute() -> None:
    """As asyncio reports them: a traceback for each attempt to accept one."""

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    async def report(number: int) -> None:
        context = {
            "message": "socket.accept() out of system resource",
            "exception": OSError(number, os.strerror(number)),
        }
        for _ in range(500):
            asyncio.get_running_loop().call_exception_handler(context)

    kept: list[logging.LogRecord] = []
    handler = Kept()
    unaccepted = Unaccepted()
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    handler.addFilter(unaccepted)
    try:
        asyncio.run(report(errno.EMFILE))
        (line,) = {each.getMessage() for each in kept}
        assert line == (
            "new connections wait: Too many open files"
            " (the limit is that of ulimit -n, or of LimitNOFILE in systemd)"
        )
        assert len(kept) <= 2  # a minute may end meanwhile
        assert kept[0].exc_info is None
        kept.clear()
        asyncio.run(report(errno.EIO))
        assert len(kept) == 500
        assert all(each.exc_info for each in kept)
    finally:
        logger.removeHandler(handler)
