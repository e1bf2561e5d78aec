"""A memory or node that a program drops without closing it: a ResourceWarning, as for a file."""

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import gc, os, sys, warnings
from pathlib import Path
from engramlog import Memory
from engramlog.api.node.node import Node
from engramlog.eventlog.errors import EventLogError
path = Path(sys.argv[1])
"""
DROPPED = {
    "memory = Memory(path); del memory": "unclosed memory",
    "memory = Memory(path).as_of('position:1'); memory.facts(); del memory": "unclosed memory",
    "memory = Memory('http://127.0.0.1:9/'); del memory": "unclosed memory",
    "node = Node.open(path); del node": "unclosed node",
}
QUIET = [
    "memory = Memory(path)",  # the end of the process closes it
    "memory = Memory(path); memory.close(); del memory",
    "memory = Memory(path); past = memory.as_of('position:1'); del memory; past.facts()",
    "with Memory(path): pass",
    "node = Node.open(path); node.close(); del node",
    """
memory = Memory(path)
node = None
if os.fork() == 0:
    del memory
    gc.collect()
    os._exit(0)
os.wait()
""",
    """
(path / "file").mkdir(parents=True)
for opened in (Memory, Node.open):
    try:
        opened(Path("/dev/null"))
    except (EventLogError, OSError):
        pass
""",
]


def warned(program: str, data: Path) -> list[str]:
    """What a program warns about unclosed things."""
    program = f"{BEGIN}\n{program}\ngc.collect()\nsys.stdout.write('done')\n"
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", program, str(data)]
    done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout == "done"
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if ": ResourceWarning:" in line]


@pytest.mark.parametrize("program", DROPPED)
def test_an_unclosed_object_warns_once(program: str, tmp_path: Path) -> None:
    (line,) = warned(program, tmp_path / "data")
    assert DROPPED[program] in line


@pytest.mark.parametrize("program", QUIET)
def test_a_closed_one_warns_of_nothing(program: str, tmp_path: Path) -> None:
    assert warned(program, tmp_path / "data") == []
