"""Whether the answers to writers and readers agree with the final log.

It knows the histories and the log's rows, not the engine. An append is one step of one total order.
So linearizability means: every acknowledged operation is in the log once, at the position in its
answer, and before every operation that began after its end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct


class Row(Struct, frozen=True):
    """One event of the final log."""

    position: int
    header: bytes
    hash: bytes


class Verdict(Struct, frozen=True):
    """The findings: ``faults`` is empty without any."""

    acknowledged: int
    replayed: int
    unknown: int
    read: int
    histories_left: int
    faults: list[str]


def lines(path: Path) -> list[dict[str, Any]]:
    """A history, without a line that a kill cut short."""
    found: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def check(rows: Sequence[Row], writers: Iterable[Path], readers: Iterable[Path]) -> Verdict:
    """Compare all histories with the final log."""
    faults = [*_chain(rows), *_keys(rows)]
    by_position = {row.position: row for row in rows}
    acknowledged: list[dict[str, Any]] = []
    unknown = 0
    for path in writers:
        operations, unknown_here = _acknowledged(lines(path))
        acknowledged += operations
        unknown += unknown_here
    for operation in acknowledged:
        row = by_position.get(operation["last"])
        if row is None or row.hash.hex() != operation["hash"]:
            faults.append(f"lost: {operation['writer']}-{operation['op']} at {operation['last']}")
            continue
        key = msgspec.msgpack.decode(row.header)[11]
        if key != f"{operation['writer']}-{operation['op']}":
            faults.append(f"position {operation['last']} holds {key}, not what was acknowledged")
    faults += _real_time(acknowledged)
    read = left = 0
    faults += _digests([lines(path) for path in readers])
    for path in readers:
        seen, other, wrong = _read(lines(path), by_position)
        read, left = read + seen, left + other
        faults += wrong
    replayed = sum(bool(operation["replayed"]) for operation in acknowledged)
    return Verdict(len(acknowledged), replayed, unknown, read, left, faults)


def _chain(rows: Sequence[Row]) -> list[str]:
    """Gaps and forks: positions and sequences from 1, every event naming the one before it."""
    tips: dict[str, tuple[int, bytes]] = {}
    for number, row in enumerate(rows, 1):
        if row.position != number:
            return [f"gap: position {number} is missing"]
        if sha256(b"\x00" + row.header).digest() != row.hash:
            return [f"position {number}: the hash is not the header's"]
        header = msgspec.msgpack.decode(row.header)
        stream, sequence, before = header[3], header[4], header[12]
        if (sequence - 1, before) != tips.get(stream, (0, bytes(32))):
            return [f"fork: position {number} does not continue {stream}"]
        tips[stream] = (sequence, row.hash)
    return []


def _keys(rows: Sequence[Row]) -> list[str]:
    """Doubles: the events of one key are adjacent, so a key that begins twice is doubled."""
    begun: Counter[str] = Counter()
    last = None
    for row in rows:
        key = msgspec.msgpack.decode(row.header)[11]
        if key != last:
            begun[key] += 1
        last = key
    doubled = [f"doubled: {key}" for key, times in begun.items() if times > 1]
    ids = Counter(msgspec.msgpack.decode(row.header)[1] for row in rows)
    return doubled + [f"event {name.hex()} occurs twice" for name, n in ids.items() if n > 1]


def _acknowledged(history: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Acknowledged operations with the start of their first attempt, and unknown outcomes."""
    first: dict[int, int] = {}
    done: list[dict[str, Any]] = []
    unknown = 0
    for noted in history:
        if "start" in noted:
            first.setdefault(noted["op"], noted["start"])
        elif "hash" in noted:
            done.append({**noted, "start": first[noted["op"]]})
        elif "fault" in noted:
            unknown += noted["fault"].startswith("OutcomeUnknown")
    return done, unknown


def _real_time(acknowledged: list[dict[str, Any]]) -> list[str]:
    """An operation that ended before another began comes before it."""
    ends = sorted(acknowledged, key=lambda operation: operation["end"])
    starts = sorted(acknowledged, key=lambda operation: operation["start"])
    faults: list[str] = []
    highest, index = 0, 0
    for operation in starts:
        while index < len(ends) and ends[index]["end"] < operation["start"]:
            highest = max(highest, ends[index]["last"])
            index += 1
        if operation["first"] <= highest:
            faults.append(
                f"order: {operation['writer']}-{operation['op']} began after position {highest} "
                f"was acknowledged but is at {operation['first']}"
            )
    return faults


def digested(history: list[dict[str, Any]]) -> int:
    """The position of a reader's last digest."""
    return max((noted["digested"] for noted in history[-1:] if "digested" in noted), default=0)


def _digests(histories: list[list[dict[str, Any]]]) -> list[str]:
    """Tables of the same log are equal, for any reader and any page size."""
    last = {
        (noted["digested"], noted["digest"])
        for each in histories
        for noted in each[-1:]
        if "digested" in noted
    }
    return [f"the readers' tables diverge: {sorted(last)}"] if len(last) > 1 else []


def _read(history: list[dict[str, Any]], by_position: dict[int, Row]) -> tuple[int, int, list[str]]:
    """Events in the last history a reader followed, histories it left, and faults: it reads each
    without a gap, and the last one is the log."""
    parts: list[list[dict[str, Any]]] = [[]]
    for noted in history:
        if "from" in noted:
            parts.append([])
        elif "at" in noted:
            parts[-1].append(noted)
    faults: list[str] = []
    for part in parts:
        for number, noted in enumerate(part, 1):
            if noted["at"] != number:
                faults.append(f"a reader was shown {noted['at']} after {number - 1}")
                break
    for noted in parts[-1]:
        row = by_position.get(noted["at"])
        if row is None or row.hash.hex() != noted["hash"]:
            faults.append(f"a reader holds another event at {noted['at']} than the log")
            break
    return len(parts[-1]), len(parts) - 2, faults
