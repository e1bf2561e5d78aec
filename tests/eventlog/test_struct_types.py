"""Threads that decode a struct for the first time at once."""

import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from engramlog.api.node.node import Node
from engramlog.eventlog import struct_types

THREADS = """
import sys, threading
import msgspec
from engramlog.eventlog.struct_types import complete_struct_types

sys.setswitchinterval(1e-6)
for number in range(100):
    names = [f"f{n}" for n in range(30)]
    inner = msgspec.defstruct(f"Inner{number}", [(name, "int | None", None) for name in names])
    lists = [(f"g{n}", "list[int] | None", None) for n in range(60)]
    outer = msgspec.defstruct(f"Outer{number}", [("inner", inner), *lists])
    complete_struct_types()
    document = {"inner": dict.fromkeys(names, 1), **{name: [1] for name, *_ in lists}}
    together = threading.Barrier(6)

    def decode():
        together.wait()
        msgspec.convert(document, outer)

    threads = [threading.Thread(target=decode) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_completed_structs_are_decoded_by_many_threads_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_an_open_node_has_completed_the_structs_that_were_loaded(tmp_path: Path) -> None:
    class Late(Struct):
        number: int

    assert Late not in struct_types._completed
    Node.open(tmp_path).close()
    assert Late in struct_types._completed
