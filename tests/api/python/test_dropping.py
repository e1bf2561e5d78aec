"""A memory or node that a program drops without closing it: a ResourceWarning, as for a file.

One process loads the modules and forks for each program, which then ends as any program does.
"""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3),
    reason="Python 3.12.0 to 3.12.2 starts no thread while a process ends",
)
RUN_ALL = """
import gc, json, os, sys
from pathlib import Path
from engramlog import Memory
from engramlog.api.node.node import Node
from engramlog.api.python.embedded import EmbeddedNode  # a directory's memory loads it
from engramlog.eventlog.errors import EventLogError
for number, program in enumerate(json.load(sys.stdin)):
    if os.fork() == 0:
        folder = Path(sys.argv[1], str(number))
        folder.mkdir()
        for stream in (1, 2):
            os.dup2(os.open(folder / str(stream), os.O_CREAT | os.O_WRONLY), stream)
        path = folder / "data"
        exec(program)
        gc.collect()
        sys.stdout.write("done")
        break
    assert os.wait()[1] == 0, program
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


@pytest.fixture(scope="module")
def warned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each program warns about unclosed things."""
    folder = tmp_path_factory.mktemp("dropping")
    programs = [*DROPPED, *QUIET]
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", RUN_ALL, str(folder)]
    subprocess.run(command, check=True, timeout=300, input=json.dumps(programs), text=True)
    found: dict[str, list[str]] = {}
    for number, program in enumerate(programs):
        out, errors = ((folder / str(number) / name).read_text() for name in ("1", "2"))
        assert (out, "Traceback" in errors) == ("done", False), errors
        found[program] = [line for line in errors.splitlines() if ": ResourceWarning:" in line]
    return found


@pytest.mark.parametrize("program", DROPPED)
def test_an_unclosed_object_warns_once(program: str, warned: dict[str, list[str]]) -> None:
    (line,) = warned[program]
    assert DROPPED[program] in line


@pytest.mark.parametrize("program", QUIET)
def test_a_closed_one_warns_of_nothing(program: str, warned: dict[str, list[str]]) -> None:
    assert warned[program] == []
