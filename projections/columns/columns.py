"""Growing numpy arrays with a row per fact: the storage of the memory image."""

from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

import numpy as np

from engramlog.projections.arrays import F64, I8, I32, I64, U32, grown
from engramlog.projections.moment import LIVE


class FactArrays:
    """The columns: one row (slot) per fact, in position order."""

    from_position: I64
    to_position: I64
    entity: I32
    relation: I32
    source: I32
    scope: I8
    garden: I32
    value: I32
    value_type: I8
    key: I32
    object: I32
    hlc: I64
    recorded_at: I64
    valid_from: I64
    valid_until: I64
    base: F64
    set_aside: I64
    length: I32
    """Its terms."""
    value_bytes: I32
    """Its value in UTF-8."""
    warrant: I8
    asking: I8
    tie: U32
    """Orders facts with the same clock reading, equally on every node; it comes from the fact's
    id."""
    origin: I32
    peer: I32
    """The peer that a fact came through, as a source's number; -1 for this node's own."""
    classification: I8
    """The newest classification of each fact: present rights apply to the past as well."""


COLUMN_TYPES: dict[str, type[np.generic]] = {
    name: get_args(get_args(kind)[1])[0] for name, kind in get_type_hints(FactArrays).items()
}
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
