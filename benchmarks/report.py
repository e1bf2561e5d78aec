"""Figures of a run, and how they are printed."""

import sys
from collections.abc import Sequence
from time import perf_counter

from msgspec import Struct


class Figure(Struct, frozen=True):
    """One measurement. ``ratio`` compares it with ``baseline``, measured in the same run."""

    name: str
    value: float
    unit: str
    baseline: str = ""
    ratio: float | None = None
    aim: str = ""


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = perf_counter()

    @property
    def seconds(self) -> float:
        return perf_counter() - self._began


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def say(text: str) -> None:
    """Report progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def table(figures: Sequence[Figure]) -> str:
    """Figures as aligned text."""
    rows = [("measure", "value", "ratio", "baseline", "aim")]
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
        rows.append((figure.name, _shown(figure), ratio, figure.baseline, figure.aim))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _shown(figure: Figure) -> str:
    digits = 0 if figure.value >= 100 else 2
    return f"{figure.value:,.{digits}f} {figure.unit}"
