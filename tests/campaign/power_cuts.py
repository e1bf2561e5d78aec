"""Power cuts: a node runs, power fails at many instants, and each result is checked.

After a cut the log verifies, the node starts, and every fact acknowledged before is there.
"""

import random
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from engramlog.api.node.node import Node
from engramlog.eventlog.directory import PLACE_FILE, DataDirectory
from engramlog.eventlog.kinds import Value
from engramlog.projections.archive.archive import Archive
from engramlog.projections.writing.commands import Done, EraseFacts, RetractFact
from engramlog.replay.verify import verify_file
from tests.campaign.losing_files import LosingFiles
from tests.campaign.losing_storage import LosingStorage
from tests.worlds.histories import asserted

CUTS_A_LIFE = 40
STEPS_OF_A_LIFE = 900
"""About the number of writes and syncs in a life; cuts are drawn among them."""
WRITES = 60


class Cut(Struct, frozen=True):
    """A directory after a cut, and the facts acknowledged before."""

    folder: Path
    step: int
    acknowledged: list[str]
    ended: set[str]


class Life:
    """One node under writes, snapshots, rebuilds, sealing and erasure, with its cuts."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cuts: list[Cut] = []
        self._folder = folder
        self._at = set(self.rng.sample(range(STEPS_OF_A_LIFE), CUTS_A_LIFE))
        self._steps = 0
        self._images = random.Random(seed + 1)
        self._lock = threading.RLock()
        self._acknowledged: list[str] = []
        self._ended: set[str] = set()
        self._storage: LosingStorage | None = None
        self._files = LosingFiles(folder / "data", self._step)

    def live(self) -> None:
        data = self._folder / "data"
        Node.open(data).close()  # the identity exists before the power fails
        usual = apsw.vfs_names()[0]
        self._storage = LosingStorage(data, self._step)
        try:
            with self._files:
                node = Node.open(data)
                try:
                    for _ in range(WRITES):
                        self._act(node)
                finally:
                    node.close()
        finally:
            self._storage.unregister()
            apsw.set_default_vfs(usual)

    def _step(self) -> None:
        with self._lock:
            self._steps += 1
            if self._steps not in self._at or self._storage is None:
                return
            target = self._folder / f"cut-{self._steps}"
            acknowledged, ended = list(self._acknowledged), set(self._ended)
            self._storage.image(target, self._images, self._files)
            self.cuts.append(Cut(target, self._steps, acknowledged, ended))

    def _act(self, node: Node) -> None:
        drawn = self.rng.random()
        with self._lock:
            standing = [each for each in self._acknowledged if each not in self._ended]
        if drawn < 0.75 or not standing:
            count = self.rng.choice((1, 1, 3, 20))
            commands = [
                asserted(
                    f"user:u{self.rng.randrange(9)}",
                    f"rel:r{self.rng.getrandbits(40)}",
                    Value(type="text", v="x" * self.rng.choice((3, 900))),
                    scope="company",
                )
                for _ in range(count)
            ]
            done = node.write(*commands)
            self._note([each.fact_id for each in done if isinstance(each, Done)])
        elif drawn < 0.85:
            gone = self.rng.choice(standing)
            with self._lock:
                self._ended.add(gone)
            node.write(RetractFact(fact_id=gone, reason="wrong"))
        elif drawn < 0.92:
            gone = self.rng.choice(standing)
            with self._lock:
                self._ended.add(gone)
            node.write(EraseFacts(erasure_id=f"e{self.rng.getrandbits(32)}", fact_ids=(gone,)))
        elif drawn < 0.96:
            node.snapshot()
        elif drawn < 0.98:
            node.rebuild()
        else:
            Archive(node.directory, node.log, segment_events=32).seal()

    def _note(self, names: list[Any]) -> None:
        with self._lock:
            self._acknowledged += [str(name) for name in names]


def fault_of(cut: Cut) -> str | None:
    """The fault of a directory after the cut; None without one."""
    # it has another place than before
    (cut.folder / "identity" / PLACE_FILE).unlink(missing_ok=True)
    directory = DataDirectory.inspect(cut.folder)
    identity = directory.identity
    report = verify_file(directory.log_path, origin=identity.node_id, epoch=identity.epoch)
    if report.fault is not None:
        return f"the log does not verify: {report.fault}"
    try:
        node = Node.open(cut.folder)
    except Exception as fault:  # anything that prevents its start
        return f"the node does not start: {fault!r}"
    try:
        lost = [
            fact
            for fact in cut.acknowledged
            if fact not in cut.ended and node.reader.slot_of(fact) is None
        ]
        if lost:
            return f"{len(lost)} of {len(cut.acknowledged)} acknowledged facts are lost"
        done = node.write(asserted("user:after", "rel:after", Value(type="string", v="on")))[0]
        return None if isinstance(done, Done) else f"it takes no write: {done}"
    finally:
        node.close()


def run(count: int, seed: int) -> list[str]:
    """Run this many cuts; returns the faults with the seeds of their lives."""
    faults: list[str] = []
    seen = 0
    while seen < count:
        folder = Path(tempfile.mkdtemp(prefix="cuts-"))
        try:
            life = Life(folder, seed)
            life.live()
            for cut in life.cuts[: count - seen]:
                fault = fault_of(cut)
                seen += 1
                if fault is not None:
                    faults.append(f"seed {seed}, cut at step {cut.step}: {fault}")
            if not life.cuts:
                return [*faults, f"seed {seed}: the life had no instant to cut at"]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seed += 1
    print(f"  {seen} power cuts", flush=True)
    return faults
