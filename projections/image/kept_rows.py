"""A cache of facts' rows: the immutable part never changes."""

import threading
from collections.abc import Iterable, Sequence
from itertools import islice

from engramlog.projections.image.image import MemoryImage
from engramlog.projections.tables.facts.fact_rows import FactRow

ROWS_MAX, ROWS_LEFT = 4_096, 3_072
"""Most cached rows, and how many are left when the oldest are dropped: many at once, because each
search for a dict's first key passes over all that were deleted before it."""
VALUE_LENGTH_MAX = 2_048
"""Longer values are not cached."""


class KeptRows:
    """Rows by position; an erasure empties the cache. Safe from any thread."""

    def __init__(self, image: MemoryImage) -> None:
        self._image = image
        self._lock = threading.Lock()
        self._erasures = image.erasures
        self._rows: dict[int, FactRow] = {}

    def find(self, positions: Sequence[int]) -> list[FactRow | None]:
        if self._erasures != self._image.erasures:
            self.clear()
        return list(map(self._rows.get, positions))

    def erasures(self) -> int:
        """A counter to read before reading rows to keep."""
        return self._image.erasures

    def keep(self, rows: Iterable[FactRow], erasures: int) -> None:
        """Keep rows, unless an erasure happened since they were read."""
        with self._lock:
            kept = self._rows
            if erasures != self._image.erasures or erasures != self._erasures:
                return
            for row in rows:
                if len(row.value_v) <= VALUE_LENGTH_MAX:
                    kept[row.from_position] = row
            if len(kept) > ROWS_MAX:
                for position in list(islice(kept, len(kept) - ROWS_LEFT)):
                    del kept[position]

    def clear(self) -> None:
        with self._lock:
            self._rows = {}
            self._erasures = self._image.erasures
