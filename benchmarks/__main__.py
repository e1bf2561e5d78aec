"""``python -m benchmarks``: run some or all benchmarks and print their figures."""

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks import (
    asof_law,
    capacity,
    congress,
    console,
    consolidation,
    cost,
    embedding,
    federation,
    federation_schedules,
    flatness,
    graph,
    icews,
    ingest,
    profiles,
    recall_beside_embedding,
    recall_quality,
    recall_speed,
    scale,
    startup,
    time_travel,
    vectors_in_file,
    writes,
)
from benchmarks.report import Figure, table

BENCHMARKS: dict[str, Callable[[int], list[Figure]]] = {
    "asof_law": asof_law.measure,
    "cost": cost.measure,
    "writes": writes.measure,
    "ingest": ingest.measure,
    "startup": startup.measure,
    "flatness": flatness.measure,
    "congress": congress.measure,
    "icews": icews.measure,
    "time_travel": time_travel.measure,
    "console": console.measure,
    "consolidation": consolidation.measure,
    "embedding": embedding.measure,
    "graph": graph.measure,
    "recall_beside_embedding": recall_beside_embedding.measure,
    "recall_speed": recall_speed.measure,
    "vectors_in_file": vectors_in_file.measure,
    "recall_quality": recall_quality.measure,
    "profiles": profiles.measure,
    "federation": federation.measure,
    "federation_schedules": federation_schedules.measure,
    "scale": scale.measure,
    "capacity": capacity.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected benchmarks."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Figures, and their ratios to a baseline measured in the same run.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)} (all)")
    parser.add_argument(
        "--facts",
        type=_sizes,
        default=[100_000],
        metavar="N[,N…]",
        help="size of the store, or several, one after the other (100000)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    args = parser.parse_args(arguments)
    unknown = set(args.names) - BENCHMARKS.keys()
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    figures: list[Figure] = []
    for name in args.names or BENCHMARKS:
        for size in args.facts:
            facts = size // 10 if args.quick else size
            found = BENCHMARKS[name](facts)
            figures += found
            print(f"\n{name} ({facts:,} facts, Python {platform.python_version()})")
            print(table(found), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(msgspec.to_builtins(figures), indent=1))
    return 0


def _sizes(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


if __name__ == "__main__":
    raise SystemExit(main())
