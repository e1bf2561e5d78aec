"""A process that forks, as ``multiprocessing`` does, while it holds a memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.forking import LIVES

SECONDS_MAX = 200.0


@pytest.mark.parametrize("life", LIVES)
def test_a_fork_leaves_the_memory_to_its_parent(life: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.worlds.forking", life, str(tmp_path / "memory")],
        env={**os.environ, "STIGMEM_EMBED_ENABLED": "false"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
