"""Schedules of three to five nodes that write, erase, hide, grant, lie, restart and are
disconnected."""

import tempfile
from pathlib import Path

from tests.worlds.federation.hard_schedules import hard_faults, run_hard


def run(count: int, seed: int) -> list[str]:
    """Run this many schedules; returns the faults with their seeds."""
    faults: list[str] = []
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory(prefix="schedule-") as name:
            try:
                members = run_hard(Path(name), number, nodes=3 + number % 3, more=True)
                found = hard_faults(members, rebuilt=number % 10 == 0)
                for member in members:
                    member.close()
            except Exception as fault:
                found = [f"{type(fault).__name__}: {fault}"]
        faults += [f"seed {number}: {fault}" for fault in found]
        for fault in found:
            print(f"  seed {number}: {fault}", flush=True)
        if (number - seed) % 20 == 19:
            print(f"  {number - seed + 1} schedules, {len(faults)} faults", flush=True)
    return faults
