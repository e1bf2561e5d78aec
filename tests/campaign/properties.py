"""Property tests with more examples, which ``make test`` does not draw."""

import os
import random
import subprocess
import sys

from tests.worlds.processes import ROOT

_NONE_COLLECTED = 5
"""pytest's exit code if a file has no selected properties."""


def run(count: int, seed: int) -> list[str]:
    """Run the property tests of this many files, drawn from the seed; returns the faults."""
    files = sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "@given" in path.read_text()
    )
    faults: list[str] = []
    for number, name in enumerate(random.Random(seed).sample(files, min(count, len(files)))):
        args = ["-q", "-m", "hypothesis", "--hypothesis-profile=random", "--timeout=3600"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *args, f"--hypothesis-seed={seed}", name],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "300"},  # a fault's line has room for its reason
        )
        lines = done.stdout.splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if done.returncode not in (0, _NONE_COLLECTED) and not failed:
            failed = lines[-1:] or [done.stderr]
        faults += [f"seed {seed}: {line}" for line in failed]
        told = lines[-1] if lines else done.stderr
        print(f"  {number + 1} of {len(files)} files, {name}: {told}", flush=True)
    return faults
