"""A bound on the error log: at most so many equal records per minute."""

import logging
from threading import Lock

EACH_PER_MINUTE = 60
KINDS_MAX = 1_000
"""Different records to count separately per minute; any more count as one."""


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
