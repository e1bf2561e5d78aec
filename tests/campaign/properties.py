"""Every property test with examples that ``make test`` does not draw, and more of them."""

from __future__ import annotations

import subprocess
import sys

from tests.worlds.processes import ROOT


def run(count: int, seed: int) -> list[str]:
    """So many rounds over all property tests; returns what was wrong."""
    faults: list[str] = []
    for number in range(count):
        drawn = seed + number
        args = ["-q", "-m", "hypothesis", "--hypothesis-profile=random", "--timeout=3600"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *args, f"--hypothesis-seed={drawn}", "tests"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = done.stdout.splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if done.returncode and not failed:
            failed = lines[-1:] or [done.stderr]
        faults += [f"seed {drawn}: {line}" for line in failed]
        print(f"  {lines[-1] if lines else done.stderr}", flush=True)
    return faults
