"""A process that follows the log and notes every event it was shown.

    python -m tests.worlds.log_faults.reader URL NAME HISTORY

A line that begins again (``from``) opens each history that it follows: where the log turns out
to be another, it starts from the beginning, as a restarted node does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.errors import EventLogError, HistoryChanged
from tests.worlds.log_faults.writer import ORIGIN, PAUSE_SECONDS, short_waits


def main(url: str, name: str, history: str) -> None:
    short_waits()
    log, after = None, 0
    with Path(history).open("a", buffering=1) as out:
        out.write("\n" + json.dumps({"reader": name, "from": 0}) + "\n")
        while True:
            try:
                if log is None:
                    log = PostgresLog.open(url, origin=ORIGIN, epoch=1, clock=SystemClock())
                    after = 0
                for event in log.read(after, 500):
                    after = event.position
                    out.write(json.dumps({"at": after, "hash": event.hash.hex()}) + "\n")
            except HistoryChanged:
                out.write(json.dumps({"reader": name, "from": 0}) + "\n")
                if log is not None:
                    log.close()
                    log = None
            except EventLogError:
                pass
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
