"""``kill -9`` while a snapshot is taken or rebuilt tables are swapped in: the node continues."""

import random
import threading
import time
from pathlib import Path

import pytest

from engramlog.api.client.client import Client, ClientError
from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.store import current_generation, generations
from engramlog.replay.verify import verify
from tests.worlds.dying_lives import lived
from tests.worlds.dying_snapshots import DIGEST, rebuilding
from tests.worlds.histories import asserted
from tests.worlds.processes import NodeProcess, fact

POINTS = {
    "copying the tables": "engramlog.replay.snapshots.sync_file",
    "the file is in place, its document is not": "engramlog.replay.snapshots.replace",
    "the document is half written": "engramlog.eventlog.durable_file.write_new",
    "making tables of the past": "engramlog.replay.rebuild.sync_file",
    "a snapshot is copied for the rebuild": "engramlog.replay.rebuild.replay_into",
    "green is complete": "engramlog.replay.rebuild._differing",
    "the link is not moved yet": "engramlog.replay.rebuild.point_link",
    "the link is moved, blue is still there": "engramlog.replay.rebuild.remove_database",
}
"""The next call, or (``write_new``) is half done."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data directory for each point at which the work on it was interrupted."""
    made = {point: tmp_path_factory.mktemp("snapshots") / "data" for point in POINTS}
    lived(rebuilding, {folder: POINTS[point] for point, folder in made.items()})
    return made


@pytest.mark.parametrize("point", POINTS)
def test_the_next_start_ignores_interrupted_work(folders: dict[str, Path], point: str) -> None:
    folder = folders[point]
    link = folder / "projections.db"
    left = len(generations(link)) - 1
    assert left == (
        1 if POINTS[point].startswith("engramlog.replay.rebuild") and "past" not in point else 0
    )
    node = Node.open(folder)
    try:
        assert node.reader.digests().local == (folder.parent / DIGEST).read_text()
        assert generations(link) == [current_generation(link)]
        found, broken = node.snapshots.all()
        assert ([each.position for each in found], broken) == ([41], [])
        assert len(list(node.snapshots.folder.iterdir())) == 2
        assert node.snapshot_fault(found[0], replay=True) is None
        assert verify(node.log).fault is None
        node.write(asserted(value=Value("string", "afterwards")))
        report = node.rebuild()
        assert (report.snapshot, report.compared) == (41, True)
        assert node.snapshot().position == node.log.head().position
    finally:
        node.close()


ROUNDS = 5
SEED = 20_261_121


class Busy:
    """Threads that write, take snapshots and rebuild until the node dies."""

    def __init__(self, node: NodeProcess, start: int) -> None:
        self.written: list[str] = []
        self.number = start
        works = (self._write, self._rebuild, self._take)
        clients = (node.client(), self._admin(node), self._admin(node))
        self._threads = [
            threading.Thread(target=self._run, args=pair)
            for pair in zip(works, clients, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _admin(self, node: NodeProcess) -> Client:
        return Client(node.control.url, node.control.token)

    def _run(self, work: object, client: Client) -> None:
        assert callable(work)
        while True:
            try:
                work(client)
            except ClientError as fault:
                if fault.status not in (0, 409, 503):
                    raise
                if not fault.status:
                    client.close()
                    return
                time.sleep(0.01)

    def _write(self, client: Client) -> None:
        self.number += 1
        self.written.append(client.post("/v1/facts", fact(self.number))["id"])

    def _rebuild(self, client: Client) -> None:
        client.post("/v1/admin/rebuild")

    def _take(self, client: Client) -> None:
        client.post("/v1/admin/snapshots")

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)


def test_kills_under_rebuilds_and_snapshots_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    data, number = tmp_path / "data", 0
    written: list[str] = []
    for _ in range(ROUNDS):
        node = NodeProcess(data, "--no-auth").wait_ready()
        busy = Busy(node, number)
        time.sleep(rng.uniform(0.3, 1.2))
        node.kill()
        busy.join()
        written += busy.written
        number = busy.number
    assert len(written) > ROUNDS * 2
    opened = Node.open(data)
    try:
        assert set(opened.reader.image.facts.slot_of) >= set(written)
        found, broken = opened.snapshots.all()
        assert broken == []
        assert [opened.snapshot_fault(each) for each in found] == [None] * len(found)
        digest = opened.reader.digests().local
        for from_scratch in (False, True):
            report = opened.rebuild(from_scratch=from_scratch)
            assert (report.compared, report.digest) == (True, digest)
    finally:
        opened.close()
