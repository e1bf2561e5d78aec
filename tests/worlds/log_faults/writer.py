"""A process that appends with idempotency keys until each is acknowledged, and records the times.

    python -m tests.worlds.log_faults.writer URL NAME HISTORY SEED

One JSON line before each attempt and one after each acknowledgement, on a clock that all processes
of a machine share. It continues where its history ends, with the same key.
"""

import json
import random
import sys
import time
from pathlib import Path

from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.postgres import connecting, session
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.errors import HistoryChanged, StorageError
from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.eventlog.log import Idempotency

ORIGIN = "stigmem:node:5f0c2a44-9d0b-4c7e-8a53-0d7be37c1a11"
SCOPES = ("company", "team", "public")
PAUSE_SECONDS = 0.05


def short_waits() -> None:
    """Short bounds, so that a schedule reaches all of them."""
    session.LOCK_SECONDS_MAX = 1.0
    session.COMMIT_SECONDS_MAX = 1.5
    session.HOLD_SECONDS_MAX = 1
    connecting.CONNECT_SECONDS_MAX = 2
    connecting.Connection.patience_seconds = 1.5


def drafts(rng: random.Random, ids: IdentifierSource, name: str, number: int) -> list[Draft]:
    made: list[Draft] = []
    for part in range(rng.choice((1, 1, 2, 4, 300))):
        scope = rng.choice(SCOPES)
        payload = FactAsserted(
            entity=f"user:{name}",
            relation=f"memory:n{number}-{part}",
            value=Value(type="string", v=str(number)),
            source="agent:writer",
            scope=scope,
        )
        made.append(Draft(payload, scope_partition(scope), ids.next(time.time_ns() // 1_000), name))
    return made


def unfinished(history: Path) -> int:
    """The number of the first operation that is not acknowledged."""
    done = -1
    if history.exists():
        for line in history.read_text().splitlines():
            try:
                noted = json.loads(line)
            except json.JSONDecodeError:  # cut short by the kill
                continue
            if "hash" in noted:
                done = noted["op"]
    return done + 1


def main(url: str, name: str, history: str, seed: str) -> None:
    short_waits()
    ids, log = IdentifierSource(ORIGIN), None
    number = unfinished(Path(history))
    with Path(history).open("a", buffering=1) as out:
        out.write("\n")  # after a line that a kill cut short

        def note(**what: object) -> None:
            out.write(json.dumps({"writer": name, "op": number, **what}) + "\n")

        while True:
            rng = random.Random(f"{seed} {name} {number}")
            key = f"{name}-{number}"
            note(start=time.monotonic_ns())
            try:
                if log is None:
                    log = PostgresLog.open(url, origin=ORIGIN, epoch=1, clock=SystemClock())
                appended = log.append(
                    drafts(rng, ids, name, number),
                    idempotency=Idempotency(name, key, key.encode()),
                )
            except StorageError as fault:
                note(fault=f"{type(fault).__name__}: {fault}")
                if isinstance(fault, HistoryChanged) and log is not None:
                    log.close()
                    log = None
                time.sleep(PAUSE_SECONDS)
                continue
            first, last = appended.events[0], appended.events[-1]
            note(
                end=time.monotonic_ns(),
                first=first.position,
                last=last.position,
                hash=last.hash.hex(),
                replayed=appended.replayed,
            )
            number += 1
            time.sleep(rng.random() * 0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
