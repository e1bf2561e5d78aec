"""kill -9 inside backup, restore, rotation and promotion, at every share of their steps."""

import random
import shutil
import tempfile
from pathlib import Path

from tests.worlds.interrupted import ACTS, Household

KILLS_A_HOUSEHOLD = 24


def run(count: int, seed: int) -> list[str]:
    """Kill this many commands; returns the faults with their seeds."""
    faults: list[str] = []
    tried = killed = 0
    while tried < count:
        folder = Path(tempfile.mkdtemp(prefix="interrupted-"))
        rng = random.Random(seed)
        household = Household(folder, seed)
        name = ""
        try:
            for name in ACTS:  # complete, to count their steps
                household.interrupt_at(name, 0)
            for number in range(min(KILLS_A_HOUSEHOLD, count - tried)):
                name = list(ACTS)[number % len(ACTS)]
                killed += household.interrupt(name, rng.random())
        except AssertionError as fault:
            faults.append(f"seed {seed}, {name}: {fault}")
        finally:
            household.close()
            shutil.rmtree(folder, ignore_errors=True)
        tried += KILLS_A_HOUSEHOLD
        seed += 1
    print(f"  {killed} of {min(tried, count)} were killed before their end", flush=True)
    return faults
