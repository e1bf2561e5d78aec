"""Logs and events for examples: a fixed origin, a fixed clock, readable identifiers."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path

from engramlog.eventlog.clock import Clock, FixedClock
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.event import Draft, Recorded, scope_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, FactErased, Value
from engramlog.eventlog.log import EventLog

ORIGIN = "stigmem:node:5f0c2a44-9d0b-4c7e-8a53-0d7be37c1a11"
START_US = 1_700_000_000_000_000
COMPANY = f"{ORIGIN}/1/scope/company"
TEAM = f"{ORIGIN}/1/scope/team"

_numbers: Iterator[int] = count(1)


def fact(text: str = "a value", *, scope: str = "company", actor: str = "agent:alice") -> Draft:
    """A draft of a fact, with an identifier not used before and greater than all others."""
    payload = FactAsserted(
        entity="project:engram",
        relation="memory:note",
        value=Value(type="string", v=text),
        source=actor,
        scope=scope,  # pyright: ignore[reportArgumentType]
    )
    return Draft(payload, scope_partition(scope), next(_numbers).to_bytes(16, "big"), actor)


def facts(number: int, *, scope: str = "company") -> list[Draft]:
    return [fact(f"value {index}", scope=scope) for index in range(number)]


def erased(*events: Recorded) -> Draft:
    """A draft that names events as erased."""
    payload = FactErased(erasure_id="erasure-1", events=[id_text(e.event_id) for e in events])
    number = next(_numbers).to_bytes(16, "big")
    return Draft(payload, scope_partition("company"), number, "agent:admin")


def erase(log: EventLog, *events: Recorded) -> None:
    """Erase the payloads of events, as one transaction."""
    transaction = log.begin()
    try:
        transaction.append([erased(*events)])
        transaction.erase([event.event_id for event in events])
        transaction.commit()
    finally:
        transaction.rollback()


def open_log(
    path: Path, clock: Clock | None = None, *, epoch: int = 1, read_only: bool = False
) -> SqliteLog:
    return SqliteLog.open(
        path,
        origin=ORIGIN,
        epoch=epoch,
        clock=clock or FixedClock(START_US),
        read_only=read_only,
    )


def seeded_salts() -> Callable[[int], bytes]:
    """The same salts for two engines, so that their hashes can be compared."""
    numbers = count()
    return lambda size: b"".join(
        sha256(str(next(numbers)).encode()).digest()[:16] for _ in range(size // 16)
    )
