"""A process that forks, as ``multiprocessing`` does, while it holds a memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.forking import LIVES
from tests.worlds.processes import serving

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


SCRIPT = """
import os, sys
from engramlog import Memory
memory = Memory(sys.argv[1])
memory.facts()
if os.fork() == 0:
    sys.exit()
os.wait()
memory.facts()
"""
"""The child drops its copy of a kept connection, and none of the two closes the memory."""


def test_a_child_that_ends_leaves_the_connection_to_its_parent(tmp_path: Path) -> None:
    with serving(tmp_path / "node", "--no-auth") as node:
        done = subprocess.run(
            # From Python 3.12 on, a fork beside threads warns.
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, node.url],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
