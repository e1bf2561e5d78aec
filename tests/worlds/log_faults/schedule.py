"""Faults drawn from a seed, injected under writers and a reader; the same seed draws the same.

Fault model. Processes (node, primary, standby) are killed or stopped; a standby replaces a primary,
which is dead or stopped and wakes later; bytes between nodes and a server are dropped in either
direction or both, or connections reset; the primary's disk is full. At most one server fails at a
time, since a quorum of two of three survives no more. Disks keep synced data.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from tests.worlds.log_faults.checker import Row, Verdict, check, digested, lines
from tests.worlds.log_faults.cluster import Cluster
from tests.worlds.log_faults.proxy import Cut
from tests.worlds.postgres_servers import new_log, wait_until

WRITERS = ("one", "two", "three")
READERS = ("four", "five")
FAULTS_EACH = 3
ROOT = Path(__file__).resolve().parents[3]


class Process:
    """A writer or reader that can be killed, stopped and started again."""

    def __init__(self, folder: Path, program: str, name: str, url: str, *more: str) -> None:
        self.history = folder / f"{name}.jsonl"
        self._command = [
            sys.executable, "-m", f"tests.worlds.log_faults.{program}", url, name,
            str(self.history), *more,
        ]  # fmt: skip
        self._errors = folder / f"{name}.stderr"
        self.start()

    def start(self) -> None:
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(self._command, cwd=ROOT, stderr=errors)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def require_alive(self) -> None:
        if self.process.poll() is not None:
            raise AssertionError(f"{self._command[2]} ended: {self._errors.read_text()}")

    def noted(self) -> list[dict[str, Any]]:
        """Its history so far."""
        return lines(self.history) if self.history.exists() else []

    def acknowledged(self) -> int:
        return sum("hash" in noted for noted in self.noted())


class Schedule:
    """One seed's faults over one log."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.drawn: list[str] = []
        self._rng = random.Random(seed)
        self._writers: list[Process] = []
        self._impossible = set[str]() if cluster.fillable else {"fill disk"}

    def run(self) -> Verdict:
        """Inject the faults, repair, let every process finish, and check."""
        cluster = self.cluster
        with (
            TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as where,
            new_log(cluster.primary, lambda: cluster.primary),
        ):
            folder, url = Path(where), cluster.nodes_url()
            self._writers = [
                Process(folder, "writer", name, url, str(self.seed)) for name in WRITERS
            ]
            readers = [Process(folder, "reader", name, url) for name in READERS]
            everyone = [*self._writers, *readers]
            try:
                self._progress("writers begin")
                for _ in range(FAULTS_EACH):
                    name = self._rng.choice(sorted(FAULTS.keys() - self._impossible))
                    self.drawn.append(name)
                    FAULTS[name](self)
                    time.sleep(self._rng.random() * 0.4)
                cluster.heal()
                self._progress("writers go on after the faults")
                for each in everyone:
                    each.require_alive()
                for each in self._writers:
                    each.kill()
                self._await_end(readers)
            finally:
                for each in everyone:
                    each.kill()
            return check(
                self._rows(),
                [each.history for each in self._writers],
                [each.history for each in readers],
            )

    def _progress(self, what: str) -> None:
        """Wait until each writer has one more acknowledgement."""
        before = [each.acknowledged() for each in self._writers]
        wait_until(
            lambda: all(
                each.acknowledged() > had for each, had in zip(self._writers, before, strict=True)
            ),
            f"{what} (seed {self.seed}: {', '.join(self.drawn)})",
        )

    def _await_end(self, readers: list[Process]) -> None:
        """Wait until every reader is at the log's end, which a commit of a killed writer may
        still move. The error says how far each came."""
        reached: list[int] = []

        def at_end() -> bool:
            reached[:] = [len(self._rows()), *(digested(each.noted()) for each in readers)]
            return len(set(reached)) == 1

        try:
            wait_until(at_end, "the readers are at the end")
        except TimeoutError as late:
            for each in readers:
                each.require_alive()
            raise TimeoutError(f"{late}; the log and its readers: {reached}") from late

    def _rows(self) -> list[Row]:
        with psycopg.connect(self.cluster.primary.url(), autocommit=True) as db:
            found = db.cursor(binary=True).execute(
                "SELECT position, header, hash FROM engramlog.events ORDER BY position"
            )
            return [Row(*row) for row in found]

    # -- the faults

    def kill_node(self) -> None:
        each = self._rng.choice(self._writers)
        each.kill()
        time.sleep(self._rng.random() * 0.3)
        each.start()

    def pause_node(self) -> None:
        self._rng.choice(self._writers).pause(self._rng.uniform(0.2, 2.5))

    def kill_primary(self) -> None:
        self.cluster.primary.kill()
        time.sleep(self._rng.random() * 0.5)
        self.cluster.primary.start()

    def kill_standby(self) -> None:
        standby = self._rng.choice(self.cluster.standbys)
        standby.kill()
        time.sleep(self._rng.random())
        standby.start()

    def pause_primary(self) -> None:
        self._pause(self.cluster.primary.pause, self.cluster.primary.resume)

    def pause_standby(self) -> None:
        standby = self._rng.choice(self.cluster.standbys)
        self._pause(standby.pause, standby.resume)

    def _pause(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        pause()
        time.sleep(self._rng.uniform(0.2, 2.5))
        resume()

    def promote_after_death(self) -> None:
        old = self.cluster.primary
        old.kill()
        self.cluster.heal_standbys()
        self.cluster.fail_over(old)
        self.cluster.rejoin(old)

    def promote_beside_sleeper(self) -> None:
        """The old primary wakes after another has replaced it, and must not be used any more."""
        old = self.cluster.primary
        self.cluster.heal_standbys()
        old.pause()
        self.cluster.fail_over(old)
        time.sleep(self._rng.random())
        old.resume()
        time.sleep(self._rng.uniform(0.5, 2.0))
        self.cluster.rejoin(old)

    def cut_network(self) -> None:
        ways: tuple[Cut, ...] = ("to server", "to client", "both")
        proxy = self.cluster.proxies[self.cluster.primary.name]
        proxy.cut(self._rng.choice(ways))
        time.sleep(self._rng.uniform(0.2, 3.0))
        proxy.heal()

    def fill_disk(self) -> None:
        primary = self.cluster.primary
        primary.fill_disk()
        time.sleep(self._rng.uniform(0.3, 2.0))
        primary.free_disk()
        primary.revive()

    def reset_network(self) -> None:
        for proxy in self.cluster.proxies.values():
            proxy.reset()


FAULTS: dict[str, Callable[[Schedule], None]] = {
    "kill node": Schedule.kill_node,
    "pause node": Schedule.pause_node,
    "kill primary": Schedule.kill_primary,
    "kill standby": Schedule.kill_standby,
    "pause primary": Schedule.pause_primary,
    "pause standby": Schedule.pause_standby,
    "promote after death": Schedule.promote_after_death,
    "promote beside sleeper": Schedule.promote_beside_sleeper,
    "cut network": Schedule.cut_network,
    "reset network": Schedule.reset_network,
    "fill disk": Schedule.fill_disk,
}
