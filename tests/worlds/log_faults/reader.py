"""A process that follows the log and keeps tables of it. It records every event it reads, and the
digest of its tables at each end of the log.

    python -m tests.worlds.log_faults.reader URL NAME HISTORY

A ``from`` line opens each history that it follows: if the log turns out to be another, it starts
from the beginning, like a restarted node.
"""

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.errors import EventLogError, HistoryChanged
from engramlog.projections.tables.digest import digest_tables
from engramlog.projections.tables.store import ProjectionStore
from tests.worlds.log_faults.writer import ORIGIN, PAUSE_SECONDS, short_waits


def main(url: str, name: str, history: str) -> None:
    short_waits()
    log, after, noted = None, 0, 0
    tables: ProjectionStore | None = None
    with Path(history).open("a", buffering=1) as out, TemporaryDirectory() as folder:
        out.write("\n" + json.dumps({"reader": name, "from": 0}) + "\n")
        while True:
            try:
                if log is None:
                    log = PostgresLog.open(url, origin=ORIGIN, epoch=1, clock=SystemClock())
                    after = noted = 0
                    tables = ProjectionStore(Path(folder) / f"{time.monotonic_ns()}.db")
                assert tables is not None
                page = log.read(after, 500)
                with tables.db:
                    tables.apply(page)
                for event in page:
                    after = event.position
                    out.write(json.dumps({"at": after, "hash": event.hash.hex()}) + "\n")
                if len(page) < 500 and after != noted:
                    noted = after
                    digest = digest_tables(tables.db).local
                    out.write(json.dumps({"digested": after, "digest": digest}) + "\n")
            except HistoryChanged:
                out.write(json.dumps({"reader": name, "from": 0}) + "\n")
                if log is not None:
                    log.close()
                    log = None
                if tables is not None:
                    tables.close()
            except EventLogError:
                pass
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
