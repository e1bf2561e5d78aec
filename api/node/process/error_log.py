"""What a process logs: lines on stderr, written by a thread of its own.

A pipe that is not read, a stopped terminal or a slow disk holds up only that thread. Lines that
find no room meanwhile are left out, and the next line says how many.
"""

import errno
import json
import logging
import os
import select
import sys
import time
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Literal

from aiohttp import web

EACH_PER_MINUTE = 60
"""Equal records in the error log."""
KINDS_MAX = 1_000
"""Different records to count separately per minute; any more count as one."""
WAITING_BYTES_MAX = 1 << 20
"""Lines that wait to be written."""
END_SECONDS_MAX = 1.0
"""How long the end of the process waits for them."""
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Repeated(logging.Filter):
    """Passes ``EACH_PER_MINUTE`` records per minute of one logger, level and text (before its
    arguments). The last of them says that more are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = -1
        self._counts: dict[tuple[str, int, str], int] = {}
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "engramlog.access":
            return True  # the operator wants one line per request
        minute = int(record.created // 60)
        key = (record.name, record.levelno, str(record.msg))
        with self._lock:
            if minute != self._minute:
                self._minute, self._counts = minute, {}
            if key not in self._counts and len(self._counts) >= KINDS_MAX:
                key = ("", 0, "")
            count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == EACH_PER_MINUTE:
            text = record.getMessage()
            record.msg, record.args = "%s (more like this are left out for a minute)", (text,)
        return count <= EACH_PER_MINUTE


class JsonFormatter(logging.Formatter):
    """Log records as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """Log records as lines for people: the time, the level unless it is info, the message."""

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        fields: dict[str, object] = getattr(record, "fields", {})
        parts = [f"{name}={value}" for name, value in fields.items() if value is not None]
        text = " ".join([record.getMessage(), *parts])
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {level}{text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class CallersFaults(logging.Filter):
    """Logs malformed bodies in one line, without a traceback, at level info: they are no failure of
    the node."""

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        if not isinstance(fault, web.RequestPayloadError):
            return True
        record.msg = f"{record.getMessage()}: {' '.join(str(fault).split())}"
        record.args, record.exc_info = (), None
        record.levelno, record.levelname = logging.INFO, "INFO"
        return logging.getLogger(record.name).isEnabledFor(logging.INFO)


class Unaccepted(logging.Filter):
    """Logs connections for which there is no file or memory in one line a minute. asyncio logs each
    attempt, with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = -1

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        if not (isinstance(fault, OSError) and fault.errno in _NO_ROOM):
            return True
        if not record.getMessage().startswith("socket.accept()"):
            return True
        minute = int(record.created // 60)
        passes, self._minute = minute != self._minute, minute
        record.msg = f"new connections wait: {fault.strerror}"
        if fault.errno == errno.EMFILE:
            record.msg += " (the limit is that of ulimit -n, or of LimitNOFILE in systemd)"
        record.args, record.exc_info = (), None
        return passes


class LineWriter(logging.Handler):
    """Writes records to an open file without making anyone wait. The standard ``QueueListener``
    would: the end of the process waits for a handler that writes, and a collection of garbage
    within ``Queue.put`` may log."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._taken = self._done = 0  # bytes; the writing thread alone changes the second
        self._left_out = 0
        self._thread = Thread(target=self._write_all, name="error log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        if self._taken - self._done + len(line) > WAITING_BYTES_MAX:
            self._left_out += 1
            return
        self._taken += len(line)
        self._lines.put((self._left_out, line))
        self._left_out = 0

    def close(self) -> None:
        """Write what waits, within ``END_SECONDS_MAX``."""
        if self._left_out:
            self._lines.put((self._left_out, b""))
        self._lines.put(None)
        self._thread.join(END_SECONDS_MAX)
        super().close()

    def _write_all(self) -> None:
        lost = 0
        while (waiting := self._lines.get()) is not None:
            left_out, line = waiting
            lost += left_out
            try:
                _write(self._descriptor, self._notice(lost) + line if lost else line)
                lost = 0
            except OSError:  # a full disk, or a reader that is gone
                lost += 1
            self._done += len(line)

    def _notice(self, count: int) -> bytes:
        fields = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING"}
        text = f"{count} lines are left out here: stderr took no more"
        return f"{self.format(logging.makeLogRecord({**fields, 'msg': text}))}\n".encode()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # the pipe or terminal is another process's too
            select.select([], [descriptor], [])


def start_logging(level: str, form: Literal["auto", "text", "json"]) -> None:
    """Send log records to stderr: ``auto`` is lines for people on a terminal, else JSON."""
    logging.getLogger("aiohttp.server").addFilter(CallersFaults())
    logging.getLogger("asyncio").addFilter(Unaccepted())
    handler = LineWriter(sys.stderr.fileno())
    plain = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(PlainFormatter() if plain else JsonFormatter())
    handler.addFilter(Repeated())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
