"""Commands without the second that Python needs to load modules.

One process loads the command line and forks for every command. Each command is then a separate
process with the caller's arguments, folder, environment and streams, and it ends, or is killed, by
itself. Tests are about the command; those of starting and interrupting start Python as a user does.

Run as a program, this module is the forking process. ``WarmCommand`` is a command with ``Popen``'s
interface; ``shim`` writes an ``engramlog`` for shells.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_SHIM = """\
#!{python} -ISs
import json, os, socket, struct, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect({path!r})
told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(asked, [struct.pack("!I", len(told))], [0, 1, 2])
asked.sendall(told)
answer = b""
while len(answer) < 8 and (more := asked.recv(8 - len(answer))):
    answer += more
code = struct.unpack("!i", answer[4:])[0] if len(answer) == 8 else -9
sys.exit(code if code >= 0 else 128 - code)
"""


class WarmCommand:
    """One running command; ``pid`` is its own. The methods are those of ``Popen``."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        env: Mapping[str, str],
        cwd: Path | None = None,
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        self._asked = socket.socket(socket.AF_UNIX)
        self._asked.connect(_forking())
        told = json.dumps([list(args), str(cwd or Path.cwd()), dict(env)]).encode()
        socket.send_fds(self._asked, [_LENGTH.pack(len(told))], [stdin, stdout, stderr])
        self._asked.sendall(told)
        self.pid = _STATUS.unpack(_exactly(self._asked, _STATUS.size))[0]

    def poll(self) -> int | None:
        """The exit code, negative for a signal, once it has ended."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        code = self.returncode
        if code is None:
            if not select.select([self._asked], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            code = int(_STATUS.unpack(_exactly(self._asked, _STATUS.size))[0])
            self.returncode = code
            self._asked.close()
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_warm(
    args: Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    cwd: Path | None,
    timeout_seconds: float,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. Raises subprocess.TimeoutExpired after killing it."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as errors,
    ):
        given.write(stdin)
        given.seek(0)
        command = WarmCommand(
            args, stdin=given.fileno(), stdout=printed.fileno(), stderr=errors.fileno(),
            env=env, cwd=cwd,
        )  # fmt: skip
        try:
            code = command.wait(timeout_seconds)
        except BaseException:
            command.kill()
            command.wait()
            raise
        printed.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(
            args, code, printed.read().decode(), errors.read().decode()
        )


def shim(folder: Path, *modules: str) -> Path:
    """An executable ``engramlog`` in ``folder``, with these modules loaded as well."""
    path = folder / "engramlog"
    path.write_text(_SHIM.format(python=sys.executable, path=_forking(*modules)))
    path.chmod(0o755)
    return path


@cache
def _forking(*modules: str) -> str:
    """The socket of a process that loads the modules and forks; it ends with this process."""
    folder = tempfile.mkdtemp(prefix="engramlog-warm-")
    path = str(Path(folder) / "s")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, __file__, path, *modules],
        stdin=subprocess.PIPE,  # closing it ends the process
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    _kept.append(process)
    return path


_kept: list[subprocess.Popen[bytes]] = []


# -- the process that forks


def _serve(path: str, *modules: str) -> NoReturn:
    import gc

    from engramlog.api.console.main import build_parser, main
    from engramlog.projections.image.files import made_by

    build_parser()
    made_by()  # every node asks for it
    for module in ("engramlog.api.console.opening", *modules):
        import_module(module)
    sys.argv[0] = "engramlog"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([listener, 0], [], [])
            if listener not in readable:
                Path(path).unlink()
                Path(path).parent.rmdir()
                os._exit(0)
            asked, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _attend(asked, main)
            asked.close()


def _attend(asked: socket.socket, main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Fork the command, send its pid, then its exit status."""
    length, streams, _, _ = socket.recv_fds(asked, _LENGTH.size, 3)
    args, cwd, env = json.loads(_exactly(asked, _LENGTH.unpack(length)[0]))
    ended, alive = os.pipe()  # closes when the command ends
    pid = os.fork()
    if pid == 0:
        asked.close()
        os.close(ended)
        os.set_inheritable(alive, False)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.exit(main(args))
    os.close(alive)
    for stream in streams:
        os.close(stream)
    asked.sendall(_STATUS.pack(pid))
    readable, _, _ = select.select([asked, ended], [], [])
    if ended not in readable:  # the caller has gone
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if ended in readable:
        asked.sendall(_STATUS.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _exactly(stream: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = stream.recv(length - len(data))
        if not more:
            raise EOFError("the other side has gone")
        data += more
    return data


if __name__ == "__main__":
    _serve(*sys.argv[1:])
