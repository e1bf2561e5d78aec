"""The checker of the fault schedules finds each fault that it is there to find."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.worlds.log_faults.checker import Row, check

History = list[dict[str, Any]]


def row(position: int, key: str, before: bytes, sequence: int | None = None) -> Row:
    fields: list[object] = [1, position.to_bytes(16, "big"), "o", "o/1/s", sequence or position]
    fields += ["k", 1, 0, 0, "a", None, key, before, bytes(32)]
    header = msgspec.msgpack.encode(fields)
    return Row(position, header, sha256(b"\x00" + header).digest())


def log_of(*keys: str) -> list[Row]:
    rows: list[Row] = []
    for position, key in enumerate(keys, 1):
        rows.append(row(position, key, rows[-1].hash if rows else bytes(32)))
    return rows


def told(rows: list[Row], op: int, position: int, start: int, end: int) -> History:
    """A writer's notes of one operation."""
    ack = {"end": end, "first": position, "last": position, "replayed": False}
    return [
        {"writer": "w", "op": op, "start": start},
        {"writer": "w", "op": op, "hash": rows[position - 1].hash.hex(), **ack},
    ]


def verdict(tmp_path: Path, rows: list[Row], writer: History, reader: History) -> list[str]:
    for name, notes in (("w", writer), ("r", reader)):
        text = "".join(json.dumps(each) + "\n" for each in notes)
        (tmp_path / name).write_text(text + '{"cut sho')
    return check(rows, [tmp_path / "w"], [tmp_path / "r"]).faults


def shown(rows: list[Row]) -> History:
    return [{"from": 0}, *({"at": each.position, "hash": each.hash.hex()} for each in rows)]


def test_a_log_as_it_should_be_has_no_fault(tmp_path: Path) -> None:
    rows = log_of("w-0", "w-1")
    history = [*told(rows, 0, 1, 10, 20), *told(rows, 1, 2, 30, 40)]
    assert verdict(tmp_path, rows, history, shown(rows)) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows[:1], "lost: w-1"),
        (lambda rows: [rows[0], rows[1], *log_of("x", "y", "w-0")[2:]], "fork"),
        (lambda rows: [rows[0], row(3, "w-1", rows[0].hash, 2)], "gap: position 2"),
        (lambda rows: log_of("w-0", "w-1", "w-0"), "doubled: w-0"),
        (lambda rows: log_of("w-0", "other"), "lost: w-1"),
    ],
)
def test_the_checker_finds_each_fault_of_a_log(
    tmp_path: Path, spoil: Callable[[list[Row]], list[Row]], words: str
) -> None:
    rows = log_of("w-0", "w-1")
    history = [*told(rows, 0, 1, 10, 20), *told(rows, 1, 2, 30, 40)]
    found = verdict(tmp_path, spoil(rows), history, [])
    assert any(words in fault for fault in found), found


def test_an_operation_before_one_that_had_ended_is_out_of_order(
    tmp_path: Path,
) -> None:
    rows = log_of("w-1", "w-0")
    history = [*told(rows, 0, 2, 10, 20), *told(rows, 1, 1, 30, 40)]
    (fault,) = verdict(tmp_path, rows, history, shown(rows))
    assert fault.startswith("order: w-1")
    at_once = [*told(rows, 0, 2, 10, 35), *told(rows, 1, 1, 30, 40)]
    assert verdict(tmp_path, rows, at_once, shown(rows)) == []


def test_the_checker_finds_a_reader_that_skips_or_differs_without_a_restart(
    tmp_path: Path,
) -> None:
    rows = log_of("w-0", "w-1")
    other = log_of("x", "y")
    assert verdict(tmp_path, rows, [], shown(rows[1:])) == ["a reader was shown 2 after 0"]
    assert "another event" in verdict(tmp_path, rows, [], shown(other))[0]
    assert verdict(tmp_path, rows, [], [*shown(other), *shown(rows)]) == []
