"""``python -m tests.campaign``: every part of the campaign, or one of them, from printed seeds."""

import argparse
import random
import sys
import time
from collections.abc import Callable

from msgspec import Struct

from tests.campaign import (
    federation,
    fuzz,
    guided,
    interrupted,
    kills,
    long_life,
    power_cuts,
    properties,
    quorum,
    soak,
)


class Part(Struct, frozen=True):
    """``count``: the size of a short campaign; 0: only on request."""

    run: Callable[[int, int], list[str]]
    count: int
    unit: str


PARTS = {
    "power": Part(power_cuts.run, 600, "cuts"),
    "kills": Part(kills.run, 20, "kills"),
    "interrupted": Part(interrupted.run, 12, "commands killed inside"),
    "federation": Part(federation.run, 30, "schedules between peers"),
    "fuzz": Part(fuzz.run, 10_000, "inputs for each reader"),
    "guided": Part(guided.run, 0, "seconds of fuzzing led by coverage for each reader"),
    "quorum": Part(quorum.run, 2, "schedules of faults under a log in PostgreSQL"),
    "life": Part(long_life.run, 20_000, "events"),
    "properties": Part(properties.run, 0, "files of property tests"),
    "soak": Part(soak.run, 0, "minutes"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    parser.add_argument("--seed", type=int, help="seed of all random choices (default: random)")
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="run only this part")
    for name, part in PARTS.items():
        text = f"{part.unit} (default: {part.count})"
        parser.add_argument(f"--{name}", type=int, metavar="N", default=part.count, help=text)
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    failed = 0
    for name in args.only or PARTS:
        count = getattr(args, name)
        if not count:
            continue
        print(f"{name}: {count} {PARTS[name].unit}, seed {seed}", flush=True)
        began = time.monotonic()
        faults = PARTS[name].run(count, seed)
        for fault in faults:
            print(f"  FAULT {fault}", flush=True)
        failed += len(faults)
        print(f"  {len(faults)} faults in {time.monotonic() - began:.0f} s", flush=True)
        if faults:
            print(f"  again: make campaign ARGS='--only {name} --{name} {count} --seed {seed}'")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
