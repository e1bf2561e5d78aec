"""Real processes for system tests: nodes and commands, always with a timeout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import IO

from engramlog.api.client.client import Client
from engramlog.api.node.process.control_file import Control, read_control
from tests.worlds.warm import WarmCommand, run_warm

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
SPACEFLIGHT = ROOT / "fixtures" / "spaceflight" / "events.jsonl"
MAPPINGS = ROOT / "fixtures" / "mappings"
READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
COMMAND_SECONDS_MAX = 600.0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings, plus ``extra``. By default facts are not
    embedded and no relation is declared: most tests are about something else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STIGMEM_")}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    fixed = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "STIGMEM_EMBED_ENABLED": "false"}
    fixed["STIGMEM_SET_VALUED_DEFAULTS"] = "false"
    return {**kept, **fixed, **(extra or {})}


def engramlog(
    *args: str | Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_seconds: float = COMMAND_SECONDS_MAX,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return run_warm(
        [*map(str, args)],
        stdin=stdin,
        env=environment(env),
        cwd=cwd,
        timeout_seconds=timeout_seconds,
    )


def create_key(
    data: Path,
    key: str,
    entity: str,
    *permissions: str,
    source: str | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Create this key in a data directory. ``source``: also write as these sources."""
    asked = [word for name in permissions for word in ("--permission", name)]
    if source is not None:
        asked += ["--source", source]
    made = engramlog(
        "key", "create", "--data", data, "--entity-uri", entity, "--raw-key", "-", *asked,
        stdin=key.encode(), env=env,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr


class NodeProcess:
    """A ``serve`` process: started, ready, and stopped or killed by the test. ``within`` is a
    command prefix, such as ``ip netns exec NAME``. With it, or with ``env`` alone, Python starts
    again and not from the forking process."""

    def __init__(
        self,
        data: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        self.data = data
        self._errors = (data.parent / f"{data.name}.stderr").open("ab")
        printed, output = os.pipe()
        command = ["serve", "--data", str(data), "--port", "0", *args]
        self.process: subprocess.Popen[bytes] | WarmCommand
        if within:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-m", "engramlog", *command],
                stdout=output,
                stderr=self._errors,
                env=environment(env),
            )
        else:
            with open(os.devnull, "rb") as nothing:
                self.process = WarmCommand(
                    command,
                    stdin=nothing.fileno(),
                    stdout=output,
                    stderr=self._errors.fileno(),
                    env=environment(env),
                )
        os.close(output)
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(
            target=self._read, args=(os.fdopen(printed, "rb"),), daemon=True
        )
        self._reader.start()
        self._clients: list[Client] = []
        self.ready_line = ""
        self.url = ""

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._lines.put(line.decode())
        self._lines.put("")

    def wait_ready(self, seconds: float = READY_SECONDS_MAX) -> NodeProcess:
        """Wait for the line that says where it serves."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                line = self._lines.get(timeout=0.5)
            except Empty:
                continue
            if not line:
                raise AssertionError(f"the node ended early: {self.errors()}")
            if line.startswith("engramlog serving "):
                self.ready_line = line.strip()
                self.url = line.split()[2]
                return self
        raise AssertionError("the node did not become ready in time")

    @property
    def control(self) -> Control:
        """The file it wrote for the command line."""
        found = read_control(self.data)
        assert found is not None
        return found

    def client(self, key: str | None = None) -> Client:
        """A client of it, with a key if one is needed; closed when the node ends."""
        client = Client(self.url, key)
        self._clients.append(client)
        return client

    def errors(self) -> str:
        """Its stderr."""
        return Path(self._errors.name).read_text()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is closed."""
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS_MAX)
            raise
        finally:
            for client in self._clients:
                client.close()
            self._reader.join(STOP_SECONDS_MAX)
            self._errors.close()
        return code


@contextmanager
def serving(data: Path, *args: str, env: Mapping[str, str] | None = None) -> Generator[NodeProcess]:
    """A ready node for a ``with`` block."""
    node = NodeProcess(data, *args, env=env)
    try:
        yield node.wait_ready()
    finally:
        node.stop()


def fact(n: int, **fields: object) -> dict[str, object]:
    """The body of an assertion that differs from others by ``n``."""
    return {
        "entity": f"stigmem://test.example/thing/{n}",
        "relation": "memory:number",
        "value": {"type": "number", "v": n},
        "source": "stigmem://test.example/agent/tester",
        "scope": "company",
        **fields,
    }
