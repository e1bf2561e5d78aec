"""A recall worker's process, without a node beside it."""

import asyncio
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.recall_workers.messages import LENGTH_BYTES
from engramlog.api.node.recall_workers.worker_process import WorkerProcess
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


def test_a_worker_loads_no_module_of_the_folder_where_the_node_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path / "data", embed_enabled=False)
    (tmp_path / "numpy.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    worker = WorkerProcess()

    async def begin() -> None:
        await worker.begin(settings)
        assert worker.ready
        worker.end()

    with closing(Node.open(settings.data_dir)):
        asyncio.run(begin())
