"""Growing numpy arrays with a row per fact: the storage of the memory image."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engramlog.projections.arrays import I32, grown
from engramlog.projections.moment import LIVE

COLUMN_TYPES: dict[str, type[np.generic]] = {
    "from_position": np.int64,
    "to_position": np.int64,
    "entity": np.int32,
    "relation": np.int32,
    "source": np.int32,
    "scope": np.int8,
    "garden": np.int32,
    "value": np.int32,
    "value_type": np.int8,
    "key": np.int32,
    "object": np.int32,
    "hlc": np.int64,
    "recorded_at": np.int64,
    "valid_from": np.int64,
    "valid_until": np.int64,
    "base": np.float64,
    "set_aside": np.int64,
    "length": np.int32,
    "value_bytes": np.int32,
    "warrant": np.int8,
    "asking": np.int8,
    "tie": np.uint32,
    "origin": np.int32,
    "peer": np.int32,
    "classification": np.int8,
}
"""The columns: one row (slot) per fact, in position order. ``length``: its terms; ``value_bytes``:
its value in UTF-8. ``tie`` orders facts with the same clock reading, equally on every node; it
comes from the fact's id."""

ROW_FIELDS = tuple(COLUMN_TYPES)


class Columns:
    """Parallel arrays that grow by doubling. Growth copies, so a reader with the old arrays keeps a
    consistent past. The writer changes only ends, at later positions."""

    def __init__(self, capacity: int = 1024) -> None:
        self.count = 0
        self.arrays: dict[str, np.ndarray[Any, Any]] = {
            name: np.zeros(capacity, dtype=kind) for name, kind in COLUMN_TYPES.items()
        }

    def append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows in the order of ``ROW_FIELDS``."""
        total = self.count + len(rows)
        if total > len(self.arrays["base"]):
            capacity = max(total, 2 * len(self.arrays["base"]))
            self.arrays = {
                name: grown(old[: self.count], capacity) for name, old in self.arrays.items()
            }
        if len(rows) == 1:
            for name, value in zip(ROW_FIELDS, rows[0], strict=True):
                self.arrays[name][self.count] = value
        else:
            for name, values in zip(ROW_FIELDS, zip(*rows, strict=True), strict=True):
                self.arrays[name][self.count : total] = values
        self.count = total

    def note_once(self, name: str, slots: Sequence[int] | I32, position: int) -> None:
        """Write a position into a column for rows without one."""
        column = self.arrays[name]
        for slot in slots:
            if column[slot] == LIVE:
                column[slot] = position
