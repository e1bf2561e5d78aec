"""PostgreSQL servers for tests: started on loopback in temporary directories, and ended.

PostgreSQL refuses to run as root, so root's tests run it as another user, in directories open to
that user. Without binaries, tests that need a server skip with the reason.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from engramlog.eventlog.engines.postgres.schema import prepare

START_SECONDS_MAX = 60.0
PR_SET_PDEATHSIG = 1
BALLAST = "ballast"
_SETTINGS = """
listen_addresses = '127.0.0.1'
max_connections = 40
shared_buffers = 32MB
dynamic_shared_memory_type = mmap
wal_level = replica
max_wal_senders = 8
wal_keep_size = 128MB
max_wal_size = 128MB
min_wal_size = 32MB
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 200ms
log_min_messages = warning
timezone = UTC
"""


def binaries() -> Path | None:
    """The newest folder of PostgreSQL's programs; None if not installed."""
    named = os.environ.get("PG_BIN")
    folders = [Path(named)] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("initdb")
    folders = [*([Path(found).resolve().parent] if found else []), *folders]
    usable = [folder for folder in folders if (folder / "initdb").is_file()]
    return usable[-1] if usable else None


def missing() -> str | None:
    """Why no server can run here; None if one can."""
    if binaries() is None:
        return "PostgreSQL is not installed (on Debian and Ubuntu: the postgresql package)"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return None


def _user() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _ended_with_parent() -> None:
    """In the child: a server does not outlive the tests that started it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


class Server:
    """One server. ``create`` makes its directory, ``start`` runs it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.data = folder / name
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._mounted = False

    @property
    def host_url(self) -> str:
        return f"host=127.0.0.1 port={self.port}"

    def url(self, user: str = "owner", database: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """A new, empty server with ``owner`` as superuser."""
        _run("initdb", "-D", self.data, "-U", "owner", "--auth=trust", "--no-sync", "-E", "UTF8",
             "--locale=C", "--data-checksums")  # fmt: skip
        self.configure(_SETTINGS)

    def take_disk(self, size_mb: int) -> None:
        """Give it a small disk. Raises OSError if none can be mounted."""
        self.data.mkdir()
        _mount(self.data, size_mb)
        self._mounted = True
        self.data.chmod(0o700)
        _own(self.data)

    def fill_disk(self) -> None:
        """Fill its disk."""
        with (self.data / BALLAST).open("wb") as out:
            free = os.statvfs(self.data)
            room = free.f_bavail * free.f_frsize - (4 << 20)  # the server writes meanwhile
            with suppress(OSError):
                os.posix_fallocate(out.fileno(), 0, max(1, room))
                out.seek(0, os.SEEK_END)
                while True:
                    out.write(bytes(1 << 16))
                    out.flush()

    def free_disk(self) -> None:
        (self.data / BALLAST).unlink(missing_ok=True)

    def give_back_disk(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "-l", self.data], check=False)
            self._mounted = False

    def clear(self) -> None:
        """Remove what is in its directory."""
        for path in self.data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def revive(self) -> None:
        """Restart it if it ended by itself; returns once it answers."""

        def up() -> bool:
            if self.ended():
                self.kill()
                self.start(wait=False)
                time.sleep(0.2)
            return not self.ended() and self.answers()

        wait_until(up, f"server {self.name} is up again")

    def clone(self, source: Server) -> None:
        """A standby's directory, copied from a running server."""
        _run("pg_basebackup", "-D", self.data, "-d", source.host_url + " user=owner",
             "-c", "fast", "-X", "stream", "--no-sync")  # fmt: skip
        self.follow(source)

    def restore(self, source: Server) -> None:
        """An independent server from a base backup of another, with the write-ahead log that the
        backup needs."""
        _run("pg_basebackup", "-D", self.data, "-d", source.host_url + " user=owner",
             "-c", "fast", "-X", "stream", "--no-sync")  # fmt: skip
        self.configure("synchronous_standby_names = ''\n")

    def archive(self) -> Path:
        """Keep every finished segment of the write-ahead log in the returned directory, from the
        next start on."""
        folder = self.folder / "archive"
        folder.mkdir()
        _own(folder)
        command = f"test ! -f {folder}/%f && cp %p {folder}/%f"
        self.configure(f"archive_mode = on\narchive_command = '{command}'\n")
        return folder

    def recover(self, archive: Path, until: str) -> None:
        """Replay archived segments over this base backup, up to a time, then take writes."""
        _write(self.data / "recovery.signal", "")
        self.configure(
            f"restore_command = 'cp {archive}/%f %p'\nrecovery_target_time = '{until}'\n"
            "recovery_target_action = 'promote'\narchive_mode = off\n"
        )

    def follow(self, source: Server) -> None:
        """Be a standby of another server from the next start (or reload) on."""
        _write(self.data / "standby.signal", "")
        told = f"{source.host_url} user=owner application_name={self.name}"
        self.configure(f"primary_conninfo = '{told}'\n")

    def configure(self, text: str) -> None:
        """Add settings; the last one of a name counts."""
        file = self.data / "postgresql.conf"
        _write(file, file.read_text() + text)

    def start(self, *, wait: bool = True) -> None:
        log = (self.folder / f"{self.name}.log").open("ab")
        user = _user() if os.geteuid() == 0 else None
        self.process = subprocess.Popen(
            [_program("postgres"), "-D", self.data, "-p", str(self.port), "-k", self.folder],
            stdout=log,
            stderr=log,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
            preexec_fn=_ended_with_parent,  # noqa: PLW1509 - nothing but one system call
            start_new_session=True,
        )
        log.close()
        if wait:
            wait_until(self.answers, f"server {self.name} answers")

    def answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError((self.folder / f"{self.name}.log").read_text()[-2000:])
        asked = subprocess.run(
            [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        )
        return asked.returncode == 0

    def processes(self) -> list[int]:
        """The postmaster and every process that it started."""
        assert self.process is not None
        parent = self.process.pid
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except FileNotFoundError:  # it has ended
            return []
        return [parent, *map(int, children)]

    def signal_all(self, number: int) -> None:
        """Send a signal to the postmaster first, then to its children."""
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.process is None or self.process.poll() is not None

    def reload(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGHUP)

    def pause(self) -> None:
        """Stop all processes: the postmaster first, so that it starts no others meanwhile."""
        self.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            self.signal_all(signal.SIGCONT)

    def kill(self) -> None:
        """Like a power cut, except that the operating system still writes its buffers."""
        if self.process is None:
            return
        self.signal_all(signal.SIGKILL)
        self.signal_all(signal.SIGCONT)
        self.process.wait()
        self.process = None
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """End at once, but without leaving shared memory behind, as a kill would."""
        if self.process is None:
            return
        self.resume()
        self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def promote(self) -> None:
        _run("pg_ctl", "promote", "-D", self.data, "-w")


class Servers:
    """A temporary directory with servers in it; ``close`` ends them and removes it.

    Args:
        size_mb: the size of a separate file system; raises OSError if none can be mounted.
        folder: the directory, which stays.
    """

    def __init__(self, size_mb: int | None = None, folder: Path | None = None) -> None:
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="pg.", dir=base))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stays = folder is not None
        self._mounted = size_mb is not None
        if size_mb is not None:
            _mount(self.folder, size_mb)
        user = _user() if os.geteuid() == 0 else None
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.all: list[Server] = []

    def single(
        self, settings: str = "", before_start: Callable[[Server], object] = lambda _: None
    ) -> Server:
        """One server without standbys; an existing directory is used unchanged."""
        server = self._new("single")
        if not server.data.exists():
            server.create()
            server.configure(settings)
            before_start(server)
        server.start()
        return server

    def quorum(self, disk_mb: int | None = None) -> list[Server]:
        """A primary that waits for one of two standbys, and the standbys; each with a separate disk
        if ``disk_mb`` is given. Raises OSError as ``take_disk``."""
        primary = self._new("one")
        standbys = [self._new("two"), self._new("three")]
        if disk_mb is not None:
            for server in self.all:
                server.take_disk(disk_mb)
        primary.create()
        primary.start()
        for standby in standbys:
            standby.clone(primary)
            standby.start()
        for server in (primary, *standbys):
            server.configure("synchronous_standby_names = 'ANY 1 (one, two, three)'\n")
            server.reload()
        return [primary, *standbys]

    def from_scripts(self, scripts: Path, password: str) -> list[Server]:
        """A quorum as PostgreSQL's container image makes it with the scripts of
        ``packaging/quorum``: passwords over the network, and the image's own steps around them."""
        one, *standbys = (self._new(name) for name in ("one", "two", "three"))
        image = self.folder / "docker-entrypoint.sh"
        _write(image, "#!/bin/sh\n")
        image.chmod(0o755)
        kept = self.folder / "password"
        _write(kept, password)
        env = {
            "PATH": f"{self.folder}:{binaries()}:{os.defpath}",
            "POSTGRES_USER": "engram",
            "POSTGRES_DB": "engram",
            "POSTGRES_PASSWORD": password,
            "PRIMARY": one.host_url,
            "PGHOST": str(self.folder),
            "PGPORT": str(one.port),
        }
        _run("initdb", "-D", one.data, "-U", "engram", f"--pwfile={kept}", "--no-sync", "-E",
             "UTF8", "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256")  # fmt: skip
        one.configure(_SETTINGS)
        one.start()
        _run("createdb", "-h", self.folder, "-p", str(one.port), "-U", "engram", "engram")
        _run_script(scripts / "primary.sh", {**env, "PGDATA": str(one.data)})
        one.stop()
        one.start()
        for standby in standbys:
            standby.data.mkdir(mode=0o700)
            _own(standby.data)
            of_standby = {"PGDATA": str(standby.data), "STANDBY": standby.name}
            _run_script(scripts / "standby.sh", env | of_standby)
            standby.start()
        return [one, *standbys]

    def _new(self, name: str) -> Server:
        server = Server(self.folder, name)
        self.all.append(server)
        return server

    def close(self) -> None:
        for server in self.all:
            server.stop()
            server.give_back_disk()
        if self._mounted:
            subprocess.run(["umount", "-l", self.folder], check=False)
        if not self._stays:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def new_log(server: Server, after: Callable[[], Server] | None = None) -> Generator[str]:
    """The address of an empty log for its nodes, for a ``with`` block. ``after`` gives the server
    that has it in the end, if that may be another."""
    with psycopg.connect(server.url(), autocommit=True) as db:
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = 'node'").fetchone():
            db.execute("CREATE ROLE node LOGIN")
    prepare(server.url(), "node")
    try:
        yield server.url("node")
    finally:
        holding = server if after is None else after()
        with psycopg.connect(holding.url(), autocommit=True) as db:
            db.execute("DROP SCHEMA engramlog CASCADE")


def _mount(folder: Path, size_mb: int) -> None:
    options = f"size={size_mb}m,mode=0755"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        folder.rmdir()
        raise
    if mounted.returncode:
        folder.rmdir()
        raise OSError(mounted.stderr.decode().strip())


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_until(holds: Callable[[], bool], what: str, seconds: float = START_SECONDS_MAX) -> None:
    """Raises TimeoutError unless it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.05)


def _program(name: str) -> str:
    folder = binaries()
    assert folder is not None
    return str(folder / name)


def _write(path: Path, text: str) -> None:
    """Write a file that the server's user owns."""
    path.write_text(text)
    _own(path)


def _own(path: Path) -> None:
    user = _user() if os.geteuid() == 0 else None
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


def _run(program: str, *arguments: str | Path) -> None:
    _run_as_server([_program(program), *map(str, arguments)], None)


def _run_script(script: Path, env: Mapping[str, str]) -> None:
    """Run a shell script as the servers' user, who may not enter its folder."""
    _run_as_server(["sh", "-c", script.read_text("utf-8")], env)


def _run_as_server(command: list[str], env: Mapping[str, str] | None) -> None:
    user = _user() if os.geteuid() == 0 else None
    done = subprocess.run(
        command,
        env=env,
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else [],
        cwd="/",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode()}")
