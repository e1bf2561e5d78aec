"""A recall worker's process, without a node beside it."""

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.api.node.recall_workers.messages import LENGTH_BYTES
from engramlog.api.settings import Settings
from tests.worlds.processes import environment


def test_a_worker_whose_node_went_while_it_started_ends_quietly(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    settings = Settings(data_dir=tmp_path / "data", embed_enabled=False).model_dump_json().encode()
    own_end, worker_end = socket.socketpair()
    with closing(node), worker_end:
        with own_end:
            own_end.sendall(len(settings).to_bytes(LENGTH_BYTES, "big") + settings)
        module = "engramlog.api.node.recall_workers.worker"
        done = subprocess.run(
            [sys.executable, "-m", module, str(worker_end.fileno())],
            pass_fds=(worker_end.fileno(),),
            env=environment(),
            capture_output=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
