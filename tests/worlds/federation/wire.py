"""Network namespaces on one wire that a test may cut, delay, duplicate and reorder.

Each namespace has a TUN device; a thread of this process carries the packets between them by the
rules of each pair. The kernel needs only namespaces and TUN, and the faults are the same without
``tc`` or its modules.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from msgspec import Struct

NETWORK = "10.213.77"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
PACKET_BYTES_MAX = 65_536
FIRST_ADDRESS = 1
_PREFIX = bytes(map(int, NETWORK.split(".")))

_Result = TypeVar("_Result")


class Rules(Struct, frozen=True):
    """The treatment of packets between two namespaces, in either direction. ``jitter_ms`` lets
    later packets overtake earlier ones; shares are in [0, 1]."""

    cut: bool = False
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    duplicated: float = 0.0
    lost: float = 0.0


class Wire:
    """Namespaces by name, the first for the test itself. ``close`` removes them.

    ``carried``, ``repeated``, ``overtaken`` and ``dropped`` count packets, so that a test can check
    that its faults happened.
    """

    def __init__(self, names: list[str], seed: int) -> None:
        self.carried = self.repeated = self.overtaken = self.dropped = 0
        self._chance = random.Random(seed)
        self._rules: dict[frozenset[str], Rules] = {}
        self._marker = f"{os.getpid()}-{random.randrange(1_000_000)}"
        self._names = names
        self._devices: dict[int, str] = {}
        self._fds: dict[str, int] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        try:
            for name in names:
                self._add(name)
        except BaseException:
            self._remove()
            raise
        self._thread.start()

    def address(self, name: str) -> str:
        return f"{NETWORK}.{FIRST_ADDRESS + self._names.index(name)}"

    def within(self, name: str) -> list[str]:
        """The prefix that runs a command in a namespace."""
        return ["ip", "netns", "exec", self._namespace(name)]

    def between(self, one: str, other: str, rules: Rules) -> None:
        """Apply these rules to packets between the two from now on."""
        self._rules[frozenset((one, other))] = rules

    def everywhere(self, names: list[str], rules: Rules) -> None:
        for one in names:
            for other in names:
                if one < other:
                    self.between(one, other, rules)

    def run(self, name: str, body: Callable[[], _Result]) -> _Result:
        """The result of ``body`` in a thread whose sockets and processes are in a namespace."""
        found: list[_Result] = []
        faults: list[BaseException] = []

        def work() -> None:
            try:
                self._enter(name)
                found.append(body())
            except BaseException as fault:
                faults.append(fault)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if faults:
            raise faults[0]
        return found[0]

    def close(self) -> None:
        self._ending.set()
        self._thread.join(10)
        self._remove()

    # -- namespaces and devices -----------------------------------------------------------

    def _namespace(self, name: str) -> str:
        return f"engramlog-{self._marker}-{name}"

    def _add(self, name: str) -> None:
        _command("ip", "netns", "add", self._namespace(name))
        self._fds[name] = self.run(name, _open_tun)
        self._devices[self._fds[name]] = name
        for words in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{self.address(name)}/24", "dev", "tun0"),
            ("ip", "link", "set", "tun0", "up"),
        ):
            _command(*self.within(name), *words)

    def _remove(self) -> None:
        for fd in self._devices:
            os.close(fd)
        self._devices.clear()
        for name in self._names:
            subprocess.run(
                ["ip", "netns", "delete", self._namespace(name)], capture_output=True, check=False
            )

    def _enter(self, name: str) -> None:
        """Move the calling thread into a namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        fd = os.open(f"/run/netns/{self._namespace(name)}", os.O_RDONLY)
        try:
            if libc.setns(fd, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(fd)

    # -- packets --------------------------------------------------------------------------

    def _carry(self) -> None:
        """Carry packets until the wire is closed."""
        waiting: list[tuple[float, int, int, bytes]] = []
        number = 0
        last_due: dict[tuple[str, str], float] = {}
        while not self._ending.is_set():
            pause = 0.05 if not waiting else max(0.0, min(0.05, waiting[0][0] - time.monotonic()))
            for fd in select.select(list(self._devices), [], [], pause)[0]:
                packet = os.read(fd, PACKET_BYTES_MAX)
                target = packet[19] - FIRST_ADDRESS
                if packet[16:19] != _PREFIX or not 0 <= target < len(self._names):
                    continue  # the kernel's IPv6 packets, for example
                pair = self._devices[fd], self._names[target]
                for due in self._due(pair, last_due):
                    number += 1
                    heapq.heappush(waiting, (due, number, self._fds[pair[1]], packet))
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, fd, packet = heapq.heappop(waiting)
                self.carried += 1
                os.write(fd, packet)

    def _due(self, pair: tuple[str, str], last_due: dict[tuple[str, str], float]) -> list[float]:
        """When a packet arrives: never, once, or twice."""
        rules = self._rules.get(frozenset(pair), Rules())
        chance = self._chance.random
        if rules.cut or chance() < rules.lost:
            self.dropped += 1
            return []
        times = 2 if chance() < rules.duplicated else 1
        self.repeated += times - 1
        now = time.monotonic()
        found = [
            now + (rules.delay_ms + rules.jitter_ms * chance()) / 1_000.0 for _ in range(times)
        ]
        self.overtaken += min(found) < last_due.get(pair, 0.0)
        last_due[pair] = max(found)
        return found


def _open_tun() -> int:
    """A TUN device ``tun0`` of the calling thread's namespace."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    except OSError:
        os.close(fd)
        raise
    return fd


def _command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def wire_or_skip(names: list[str], seed: int = 1) -> Any:
    """A wire, or a skipped test with the reason."""
    try:
        return Wire(names, seed)
    except OSError as fault:
        pytest.skip(f"network namespaces or TUN devices are not allowed here: {fault}")
