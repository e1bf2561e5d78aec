"""Commands without the second that Python needs to load modules.

One process loads the command line and forks for every command. Each command is then a separate
process with the caller's arguments, folder, environment and streams, and it ends, or is killed, by
itself. Tests are about the command; those of starting and interrupting start Python as a user does.

Run as a program, this module is the forking process. ``WarmCommand`` is a command with ``Popen``'s
interface; ``shim`` writes an ``engramlog`` for shells.
"""

import atexit
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_SHIM = """\
#!{python} -ISs
import _socket, os, sys
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
asked.connect({path!r})
env = (name + b"=" + value for name, value in os.environb.items())
told = b"\\0".join([b"%d" % len(sys.argv[1:]), *map(os.fsencode, sys.argv[1:]), os.getcwdb(), *env])
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
length = len(told).to_bytes(4, "big")
asked.sendmsg([length], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
asked.sendall(told)
answer = b""
while len(answer) < 8 and (more := asked.recv(8 - len(answer))):
    answer += more
code = int.from_bytes(answer[4:], "big", signed=True) if len(answer) == 8 else -9
sys.exit(code if code >= 0 else 128 - code)
"""
"""Loads no module but those that Python starts with: ``json`` and ``socket`` take as long again."""


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
        pairs = (f"{name}={value}" for name, value in env.items())
        told = os.fsencode("\0".join([str(len(args)), *args, str(cwd or Path.cwd()), *pairs]))
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
    atexit.register(process.communicate)  # closes its input and waits
    return path


# -- the process that forks


def _serve(path: str, *modules: str) -> NoReturn:
    import gc

    from engramlog.api.cli.main import build_parser, main
    from engramlog.api.http.app import routing
    from engramlog.eventlog.struct_types import complete_struct_types
    from engramlog.projections.image.files import made_by
    from engramlog.projections.tables.store import empty_tables

    build_parser()
    for module in ("engramlog.api.cli.opening", *modules):
        import_module(module)
    complete_struct_types()  # this and the next three: what every node makes once in a process
    made_by()
    routing()
    empty_tables(bulk=False)
    sys.argv[0] = "engramlog"
    # Under nohup, tests inherit that it is ignored; a node would rightly ignore it too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        running: list[_Running] = []
        while True:
            ends = [end for each in running for end in each.ends]
            readable, _, _ = select.select([listener, 0, *ends], [], [])
            if 0 in readable:
                for each in running:
                    each.kill()
                Path(path).unlink()
                Path(path).parent.rmdir()
                os._exit(0)
            for each in running:
                each.attend(readable)
            running = [each for each in running if each.ends]
            if listener in readable and (asked := _accept(listener)) is not None:
                running.append(_start(asked, [listener, *running], main))


class _Running:
    """A command that runs for a caller."""

    def __init__(self, asked: socket.socket, pid: int, ended: int) -> None:
        self._asked = asked
        self._pid = pid
        self._ended = ended
        self.ends: list[socket.socket | int] = [asked, ended]
        """What becomes readable when the caller goes, and when the command ends."""

    def attend(self, readable: Sequence[object]) -> None:
        """Kill the command of a caller that went; tell the exit status of one that ended."""
        if self._ended in readable:
            _, status = os.waitpid(self._pid, 0)
            with suppress(ConnectionError):
                self._asked.sendall(_STATUS.pack(os.waitstatus_to_exitcode(status)))
            self.close()
            self.ends = []
        elif self._asked in readable and self._asked in self.ends:
            self.kill()
            self.ends.remove(self._asked)

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        self._asked.close()
        os.close(self._ended)


class _Asked:
    """A caller, and the command that it asks for: arguments, folder, environment, streams."""

    def __init__(self, caller: socket.socket) -> None:
        length, streams, _, _ = socket.recv_fds(caller, _LENGTH.size, 3)
        told = os.fsdecode(_exactly(caller, _LENGTH.unpack(length)[0])).split("\0")
        count = int(told[0])
        self.caller = caller
        self.streams = streams
        self.args = told[1 : count + 1]
        self.cwd = told[count + 1]
        self.env = dict(each.split("=", 1) for each in told[count + 2 :])


def _accept(listener: socket.socket) -> _Asked | None:
    """The next caller; None if it has gone already."""
    caller, _ = listener.accept()
    try:
        return _Asked(caller)
    except (EOFError, ConnectionError, struct.error):
        caller.close()
        return None


def _start(
    asked: _Asked,
    others: Sequence[socket.socket | _Running],
    main: Callable[[Sequence[str]], int],
) -> _Running:
    """Fork the command, which closes what is of others, and send its pid."""
    ended, alive = os.pipe()  # closes when the command ends
    pid = os.fork()
    if pid == 0:
        os.close(ended)
        asked.caller.close()
        for each in others:
            each.close()
        _run(asked, main)
    os.close(alive)
    for stream in asked.streams:
        os.close(stream)
    with suppress(ConnectionError):
        asked.caller.sendall(_STATUS.pack(pid))
    return _Running(asked.caller, pid, ended)


def _run(asked: _Asked, main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Be the command."""
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked.cwd)
    os.environ.clear()
    os.environ.update(asked.env)
    try:
        code = main(asked.args)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    _end(code)


def _end(code: int) -> NoReturn:
    """End as Python does, except that it takes no modules apart: this would copy most of the memory
    that the process shares with the forking one, for three quarters of a short command's time."""
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


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
